"""Monitoring: one query for all DAGs, plus the status files that changed. No row and no query per job.

`observe_dags` writes what is seen and answers which workflows have news. No answer from the schedd
is never taken for "gone": then nothing changes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Sum

from condor.statusfile import highest_rescue, parse_metrics, read_status
from condor.types import DagmanAd, FileStamp, JobStatus, NodeState, StatusFile, UnreadableFile
from dags_app.adapters import schedd
from dags_app.models import DAG, DAGEvent, MergeGroup
from dags_app.planning.names import group_index, group_name
from dags_app.planning.types import SERVICE_NODES
from dags_app.states import DAGStatus, GroupStatus

logger = logging.getLogger(__name__)
WATCHED = (DAGStatus.SUBMITTED, DAGStatus.RUNNING, DAGStatus.HALTED)
_stamps: dict[UUID, FileStamp] = {}  # of this process: an unchanged status file is not parsed again


@dataclass(frozen=True, slots=True)
class Ending:
    """How a DAG left the queue; without an exit code nobody saw it end."""

    exit_code: int | None
    removed: bool


def observe_dags(*, now: datetime) -> set[UUID]:
    """Look at every live DAG once; the ids of the workflows something happened to."""
    dags = list(DAG.objects.filter(status__in=WATCHED).select_related("round"))
    if not dags:
        return set()
    ads = schedd().query_dags()
    news: set[UUID] = set()
    for dag in dags:
        try:
            if _observe(dag, ads.get(dag.token), now):
                news.add(dag.workflow_id)
        except UnreadableFile as error:  # the last good reading stands; the others must be seen too
            logger.warning("%s: %s", dag.token, error)
    return news


def _observe(dag: DAG, ad: DagmanAd | None, now: datetime) -> bool:
    """Write what is seen of one DAG; True if a group finished or the DAG changed its status."""
    if ad is None:
        ending = _ending(dag, now)
        return ending is not None and _finish(dag, ending, now)
    reading = read_status(Path(f"{dag.dag_file_path}.status"), previous=_stamps.get(dag.pk))
    status = reading.status if reading is not None and _is_of(dag, reading.status) else None
    changes: dict[str, object] = {
        "status": DAGStatus.HALTED if ad.job_status is JobStatus.HELD else DAGStatus.RUNNING,
        "nodes_idle": ad.jobs_idle,
        "nodes_running": ad.jobs_running,
        "nodes_held": ad.jobs_held,
        "observed_at": now,
    }
    finished = 0
    with transaction.atomic():
        if status is not None:
            finished = _mark_groups(dag, status.nodes, now)
            changes |= {"nodes_done": _nodes_done(dag), "nodes_failed": status.nodes_failed}
        moved = _update(dag, changes, event="observed")
    if reading is not None:
        _stamps[dag.pk] = reading.stamp  # only now: an unwritten reading must be read again
    return moved or finished > 0


def _is_of(dag: DAG, status: StatusFile) -> bool:
    """After a resubmission the file of the DAG before stands there until DAGMan writes its own."""
    return dag.submitted_at is None or status.written_at >= int(dag.submitted_at.timestamp())


def _ending(dag: DAG, now: datetime) -> Ending | None:
    """How the DAG ended, from history, else from what it left on disk; None while that is unclear."""
    ad = schedd().finished_dag(dag.token, dag.dagman_cluster_id or 0)
    if ad is not None:
        return Ending(exit_code=ad.exit_code, removed=ad.job_status is JobStatus.REMOVED)
    metrics = Path(f"{dag.dag_file_path}.metrics")
    if metrics.exists() and metrics.stat().st_mtime > (dag.submitted_at or now).timestamp():
        final = parse_metrics(metrics.read_bytes())
        return Ending(exit_code=final.exit_code, removed=final.dag_status == 4)
    last_seen = dag.observed_at or dag.submitted_at or now
    vanished = now - last_seen > timedelta(seconds=settings.DAG_VANISHED_AFTER_SEC)
    return Ending(exit_code=None, removed=False) if vanished else None


def _finish(dag: DAG, ending: Ending, now: datetime) -> bool:
    """The last look: every manifest on disk counts, whatever the last status file said."""
    groups = list(dag.round.groups.all())
    done = {group.index for group in groups if _has_manifest(dag, group) or _is_credited(group)}
    failed = [group.pk for group in groups if group.index not in done]
    complete = ending.exit_code == 0 and not failed
    if dag.stop_requested_at is not None and not complete:
        status = DAGStatus.STOPPED
    elif complete:
        status = DAGStatus.COMPLETED
    elif ending.removed:
        status = DAGStatus.REMOVED
    else:
        status = DAGStatus.PARTIAL if done else DAGStatus.FAILED
    rescue = highest_rescue(Path(dag.dag_file_path))
    changes: dict[str, object] = {
        "status": status,
        "exit_code": ending.exit_code,
        "rescue_dag_path": str(rescue or ""),
        "nodes_failed": len(failed),
        "nodes_idle": 0,
        "nodes_running": 0,
        "nodes_held": 0,
        "observed_at": now,
        "completed_at": now,
    }
    with transaction.atomic():
        _mark(dag, done, now)
        if status != DAGStatus.STOPPED:
            MergeGroup.objects.filter(pk__in=failed).update(status=GroupStatus.FAILED)
        _update(dag, changes | {"nodes_done": _nodes_done(dag)}, event="ended")
    _stamps.pop(dag.pk, None)
    return True


def _has_manifest(dag: DAG, group: MergeGroup) -> bool:
    return (Path(dag.submit_dir) / group_name(group.index) / "merge_output.json").exists()


def _is_credited(group: MergeGroup) -> bool:
    return group.status in (GroupStatus.DONE, GroupStatus.COLLECTED)


def _mark_groups(dag: DAG, nodes: Mapping[str, NodeState], now: datetime) -> int:
    """Groups the status file calls done become DONE; how many are new."""
    done = {group_index(name) for name, state in nodes.items() if state is NodeState.DONE}
    return _mark(dag, {index for index in done if index is not None}, now)


def _nodes_done(dag: DAG) -> int:
    """All nodes of the groups that are done; nobody asks a running group how far it is."""
    done = dag.round.groups.filter(status__in=[GroupStatus.DONE, GroupStatus.COLLECTED])
    sums = done.aggregate(groups=Count("id"), jobs=Sum("jobs"))
    return int(sums["jobs"] or 0) + SERVICE_NODES * int(sums["groups"])


def _mark(dag: DAG, done: set[int], now: datetime) -> int:
    fresh = dag.round.groups.filter(index__in=done, status__in=[GroupStatus.PLANNED, GroupStatus.FAILED])
    return fresh.update(status=GroupStatus.DONE, dag=dag, finished_at=now)


def _update(dag: DAG, changes: dict[str, object], *, event: str) -> bool:
    """Compare-and-set on the version; a status change leaves an event. True if the status changed."""
    before = dag.status
    moved = changes["status"] != before
    if moved:
        changes = changes | {"version": F("version") + 1}
    if not DAG.objects.filter(pk=dag.pk, version=dag.version).update(**changes):
        return False  # somebody else changed it meanwhile; the next look sees both
    if moved:
        DAGEvent.objects.create(
            dag=dag,
            event_type=event,
            from_status=before,
            to_status=str(changes["status"]),
            nodes_done=int(str(changes.get("nodes_done", dag.nodes_done))),
            nodes_failed=int(str(changes.get("nodes_failed", dag.nodes_failed))),
            nodes_running=int(str(changes["nodes_running"])),
        )
    return moved
