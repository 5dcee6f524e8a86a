"""Hanging jobs: found by one query per schedd, reported by an alert, and removed if enabled.

Removal fails the node: POST classifies it (50665, infrastructure), and DAGMan retries the node on another
slot of the group's site, within its retries. After those the group has failed because of the site, and a
rescue leaves a site that is banned.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Aggregate, FloatField, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from condor.types import RunningJob
from dags_app.adapters import schedd
from dags_app.failures.hanging import HangLimits, Sample, describe_hang, next_sample
from dags_app.models import DAG, MergeGroup
from dags_app.services.schedds import may_be_asked
from dags_app.services.stalls import Stall, StallKind, Stalls
from dags_app.services.stragglers import move_stragglers
from dags_app.states import IN_QUEUE, GroupStatus
from sandbox.classify import HANG_MARK
from wms2_project import redis_state
from wms2_project.errors import ScheddUnreachable
from wms2_project.words import counted

logger = logging.getLogger(__name__)
MIN_MEASURED_JOBS = 10  # for a meaningful p95
MAX_REMOVED = 100  # per schedd and check
KEPT_SEC = 86_400
_TURN, _SAMPLES = "wms2:hanging:looked", "wms2:hanging:samples:"


class _Percentile(Aggregate):
    function = "PERCENTILE_DISC"
    template = "%(function)s(%(fraction)s) WITHIN GROUP (ORDER BY %(expressions)s)"


def find_hanging(*, now: datetime) -> Stalls | None:
    """Return workflows with hanging jobs; None between two checks. Unreachable schedds are skipped."""
    if not redis_state.ask(
        lambda client: client.set(_TURN, 1, nx=True, ex=settings.HANG_LOOK_SEC), otherwise=None
    ):
        return None
    limits = _limits()
    shortest = min(limits.cpu_sec, limits.min_runtime_sec)
    suspects = DAG.objects.filter(
        status__in=sorted(IN_QUEUE), nodes_running__gt=0, submitted_at__lt=now - timedelta(seconds=shortest)
    )
    by_schedd: dict[str, dict[str, DAG]] = {}
    for dag in suspects.order_by("token"):
        by_schedd.setdefault(dag.schedd_name, {})[dag.token] = dag
    stalls = Stalls(found=[], unknown=set())
    for name, dags in by_schedd.items():
        try:
            stalls.found.extend(_hanging_at(name, dags, now, limits))
        except ScheddUnreachable as error:
            logger.warning("hanging jobs at %s were not checked: %s", name, error)
            stalls.unknown.update(dag.workflow_id for dag in dags.values())
    return stalls


def _limits() -> HangLimits:
    return HangLimits(settings.HANG_CPU_SEC, settings.HANG_RUNTIME_FACTOR, settings.HANG_MIN_RUNTIME_SEC)


def _hanging_at(name: str, dags: Mapping[str, DAG], now: datetime, limits: HangLimits) -> Iterable[Stall]:
    if not may_be_asked(name, now=now):
        raise ScheddUnreachable(f"{name} does not answer", cure="Retried automatically")
    shortest = int(min(limits.cpu_sec, limits.min_runtime_sec))
    jobs = schedd(name).running_jobs(dags, longer_than_sec=shortest)
    before = _load_samples(name)
    samples = {
        job.cluster_id: next_sample(job, before.get(job.cluster_id), now=now, limits=limits) for job in jobs
    }
    _save_samples(name, samples)
    rounds = [dag.round_id for dag in dags.values()]
    usual = usual_runtimes(rounds)
    found: dict[str, list[tuple[RunningJob, str]]] = {}
    for job in jobs:
        p95_sec = usual.get(dags[job.batch_name].round_id)
        why = describe_hang(job, samples[job.cluster_id], p95_sec=p95_sec, now=now, limits=limits)
        if why:
            found.setdefault(job.batch_name, []).append((job, why))
    if settings.HANG_RETRY:
        _remove(name, found)
    hanging = {job.cluster_id for jobs in found.values() for job, _ in jobs}
    others = [job for job in jobs if job.cluster_id not in hanging or not settings.HANG_RETRY]
    move_stragglers(name=name, dags=dags, jobs=others, typical=typical_runtimes(rounds), now=now)
    return [
        Stall(dags[token].workflow_id, StallKind.HANGING, describe(hanging))
        for token, hanging in found.items()
    ]


def usual_runtimes(rounds: Collection[UUID]) -> dict[UUID, float]:
    """Return the measured p95 of job run times by round, if enough jobs have finished."""
    return _runtimes(rounds, fraction=0.95)


def typical_runtimes(rounds: Collection[UUID]) -> dict[UUID, float]:
    """Return the p95 of a typical group by round: groups with stragglers of their own do not raise it."""
    return _runtimes(rounds, fraction=0.5)


def _runtimes(rounds: Collection[UUID], *, fraction: float) -> dict[UUID, float]:
    done = MergeGroup.objects.filter(round__in=rounds, status=GroupStatus.COLLECTED).order_by()
    wall_sec = Cast(KT("metrics__job_wall_p95_sec"), FloatField())
    measured = done.values_list("round").annotate(
        measured=Sum("jobs"), p95_sec=_Percentile(wall_sec, fraction=fraction)
    )
    return {round_: p95 for round_, jobs, p95 in measured if p95 and jobs >= MIN_MEASURED_JOBS}


def describe(hanging: list[tuple[RunningJob, str]]) -> str:
    """Describe the hanging jobs: how many, where, and why the first one counts as hanging."""
    groups = sorted({job.group for job, _ in hanging})
    where = ", ".join(groups[:3]) + (" …" if len(groups) > 3 else "")
    job, why = hanging[0]
    removed = "; removed and retried" if settings.HANG_RETRY else ""
    return f"{counted(len(hanging), 'job')} hanging in {where}: {job.node} at {job.site} {why}{removed}"


def _remove(name: str, found: Mapping[str, list[tuple[RunningJob, str]]]) -> None:
    left = MAX_REMOVED
    for token, hanging in found.items():
        chosen = hanging[:left]
        left -= len(chosen)
        ids = [job.cluster_id for job, _ in chosen]
        schedd(name).remove_jobs(token, ids, reason=f"{HANG_MARK}: {chosen[0][1]}" if chosen else HANG_MARK)


def _load_samples(name: str) -> dict[int, Sample]:
    """Return the samples of the last check. Without Redis, only the total run time is known."""
    text = redis_state.ask(lambda client: client.get(_SAMPLES + name), otherwise=None)
    stored = json.loads(text) if text else {}
    return {int(key): Sample(cpu, datetime.fromtimestamp(at, UTC)) for key, (cpu, at) in stored.items()}


def _save_samples(name: str, samples: Mapping[int, Sample]) -> None:
    text = json.dumps({key: (one.cpu_sec, one.since.timestamp()) for key, one in samples.items()})
    redis_state.ask(lambda client: client.set(_SAMPLES + name, text, ex=KEPT_SEC), otherwise=None)
