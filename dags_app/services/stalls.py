"""Jobs that are held or idle for long: HTCondor does not end them, so no POST script runs.

Most held jobs are removed after the grace time by the submit file, and POST classifies the failure. What
remains are jobs held by a person, jobs that are being spooled, and jobs whose removal failed. Groups in
which all jobs are held are reported at once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from condor.types import StuckJob
from dags_app.adapters import schedd
from dags_app.models import DAG
from dags_app.services.schedds import may_be_asked
from dags_app.states import IN_QUEUE
from wms2_project.errors import ScheddUnreachable
from wms2_project.words import counted

logger = logging.getLogger(__name__)
# Held by a person, or waiting for files to be spooled: see `periodic_remove` in the submit file.
NEVER_REMOVED = frozenset({1, 16})
# HTCondor evaluates its removal rules once a minute; after this time they have failed.
REMOVAL_SLACK = timedelta(minutes=5)


class StallKind(StrEnum):
    HELD = "jobs_held"
    IDLE = "jobs_idle"
    HANGING = "jobs_hanging"  # see services.hanging


@dataclass(frozen=True, slots=True)
class Stall:
    """A sentence that describes the jobs that block a workflow."""

    workflow_id: UUID
    kind: StallKind
    message: str


@dataclass(frozen=True, slots=True)
class Stalls:
    """The stalls found, and the workflows whose schedd did not answer."""

    found: list[Stall]
    unknown: set[UUID]


def find_stalls(*, now: datetime) -> Stalls:
    """Return workflows with jobs that need a person, or with groups in which no job can run now.

    Only schedds with suspect DAGs are queried; unreachable ones are skipped.
    """
    idle = timedelta(seconds=settings.IDLE_ALERT_SEC)
    waiting = Q(nodes_idle__gt=0, nodes_running=0, submitted_at__lt=now - idle)
    suspects = DAG.objects.filter(Q(nodes_held__gt=0) | waiting, status__in=sorted(IN_QUEUE))
    by_schedd: dict[str, dict[str, DAG]] = {}
    for dag in suspects.order_by("token"):
        by_schedd.setdefault(dag.schedd_name, {})[dag.token] = dag
    stalls = Stalls(found=[], unknown=set())
    for name, dags in by_schedd.items():
        try:
            stalls.found.extend(_stalls_at(name, dags, now))
        except ScheddUnreachable as error:
            logger.warning("stuck jobs at %s were not checked: %s", name, error)
            stalls.unknown.update(dag.workflow_id for dag in dags.values())
    return stalls


def _stalls_at(name: str, dags: Mapping[str, DAG], now: datetime) -> list[Stall]:
    stuck: dict[tuple[str, StallKind], list[StuckJob]] = {}
    for job in _stuck_jobs(name, dags, now):
        kind = StallKind.HELD if job.hold_code else StallKind.IDLE
        stuck.setdefault((job.batch_name, kind), []).append(job)
    return [
        Stall(dags[token].workflow_id, kind, describe(kind, jobs, now))
        for (token, kind), jobs in stuck.items()
    ]


def _stuck_jobs(name: str, tokens: Iterable[str], now: datetime) -> Iterator[StuckJob]:
    if not may_be_asked(name, now=now):
        raise ScheddUnreachable(f"{name} does not answer", cure="Retried automatically")
    port = schedd(name)
    stuck = port.stuck_jobs(tokens, idle_sec=settings.IDLE_ALERT_SEC)
    passing = {job.batch_name for job in stuck if job.hold_code and not _lasts(job, now)}
    working = port.working_groups(sorted(passing)) if passing else set()
    for job in stuck:
        if not job.hold_code or _lasts(job, now) or (job.batch_name, job.group) not in working:
            yield job


def _lasts(job: StuckJob, now: datetime) -> bool:
    grace = timedelta(seconds=settings.HELD_GRACE_SEC) + REMOVAL_SLACK
    return job.hold_code in NEVER_REMOVED or now - job.since > grace


def describe(kind: StallKind, jobs: list[StuckJob], now: datetime) -> str:
    """Describe the jobs: how many, where, and the most common reason or the longest wait."""
    groups = sorted({job.group for job in jobs})
    where = ", ".join(groups[:3]) + (" …" if len(groups) > 3 else "")
    if kind is StallKind.IDLE:
        hours = (now - min(job.since for job in jobs)).total_seconds() / 3600
        return f"{counted(len(jobs), 'job')} in {where} waiting for a slot, the first for {hours:.0f} h"
    ((reason, _),) = Counter(job.reason for job in jobs).most_common(1)
    return f"{counted(len(jobs), 'job')} held in {where}: {reason or 'no reason given'}"
