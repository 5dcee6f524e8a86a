"""Stragglers: jobs much slower than those of a typical group, moved to another slot of their site.

A job is moved once no job of its DAG waits for a slot, and at most once per node and DAG. Removal fails the
node like that of a hanging job; DAGMan retries it, before the first attempts of other nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from uuid import UUID

from django.conf import settings

from condor.types import RunningJob
from dags_app.adapters import schedd
from dags_app.failures.hanging import HangLimits, describe_slow
from dags_app.models import DAG, DAGEvent
from sandbox.classify import HANG_MARK

MOVED = "moved"
MAX_MOVED = 100  # per schedd and check


def move_stragglers(
    *,
    name: str,
    dags: Mapping[str, DAG],
    jobs: Iterable[RunningJob],
    typical: Mapping[UUID, float],
    now: datetime,
) -> None:
    """Remove stragglers of DAGs without waiting jobs, so that DAGMan retries them. Record why."""
    at_the_end = {token: dag for token, dag in dags.items() if not dag.nodes_idle and dag.round_id in typical}
    earlier = _moved_before(at_the_end.values())
    found: dict[str, list[tuple[RunningJob, str]]] = {}
    left = MAX_MOVED
    for job in jobs:
        dag = at_the_end.get(job.batch_name)
        if dag is None or not left or (dag.pk, job.group, job.node) in earlier:
            continue
        why = describe_slow(
            job,
            p95_sec=typical[dag.round_id],
            now=now,
            factor=settings.STRAGGLER_FACTOR,
            limits=HangLimits(0.0, 0.0, settings.HANG_MIN_RUNTIME_SEC),
        )
        if why:
            found.setdefault(job.batch_name, []).append((job, why))
            left -= 1
    for token, slow in found.items():
        _move(name, dags[token], slow)


def _move(name: str, dag: DAG, slow: list[tuple[RunningJob, str]]) -> None:
    """Record the jobs, then remove them: after a crash between both, a job is not moved."""
    moved = [
        {"group": job.group, "node": job.node, "site": job.site, "why": f"{job.node} {why}"}
        for job, why in slow
    ]
    DAGEvent.objects.create(dag=dag, event_type=MOVED, detail={"jobs": moved})
    ids = [job.cluster_id for job, _ in slow]
    schedd(name).remove_jobs(dag.token, ids, reason=f"{HANG_MARK}: {slow[0][1]}; moved to another slot")


def _moved_before(dags: Collection[DAG]) -> set[tuple[UUID, str, str]]:
    events = DAGEvent.objects.filter(dag__in=dags, event_type=MOVED).values_list("dag_id", "detail")
    return {(dag, one["group"], one["node"]) for dag, detail in events for one in detail["jobs"]}
