"""Monitoring of DAGs: one query per schedd for all DAGs, plus the status files that changed.

`observe_dags` stores what is observed and returns the workflows with news. No answer from the schedd or the
disk never means "gone": then nothing changes.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, F, Sum

from condor.statusfile import highest_rescue, parse_metrics, read_status
from condor.types import DagmanAd, FileStamp, GroupNodes, JobStatus, StatusFile, UnreadableFile
from dags_app.adapters import schedd
from dags_app.models import DAG, DAGEvent, MergeGroup, Workflow
from dags_app.planning.names import group_index, group_name
from dags_app.planning.types import SERVICE_NODES
from dags_app.schedd_choice import share_groups
from dags_app.services import schedds
from dags_app.services.group_counts import GroupCount, count_nodes, last_count
from dags_app.states import IN_QUEUE, DAGStatus, GroupStatus, RoundKind
from wms2_project.changes import announce_requests
from wms2_project.errors import ScheddUnreachable
from wms2_project.failpoints import failpoint

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
    """Content of a DAG's status file that this process has stored; it is not read and written again."""

    stamp: FileStamp | None = None
    done: frozenset[str] = frozenset()
    groups: Mapping[str, GroupNodes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sight:
    """One observation of a DAG in the queue; `failed` is None if the status file has not changed."""

    dag: DAG
    ad: DagmanAd
    known: Known
    counted: Mapping[str, GroupNodes]  # stored progress of its running groups
    fresh: tuple[int, ...] = ()
    failed: int | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """One observation of all DAGs: workflows with news, those with unreadable files and why,
    and those with unknown state, because their schedd or its history did not answer.
    """

    news: set[UUID] = field(default_factory=set)
    unreadable: dict[UUID, str] = field(default_factory=dict)
    unknown: set[UUID] = field(default_factory=set)


_known: dict[UUID, Known] = {}


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a DAG that left the queue; without an exit code the end was not observed."""

    exit_code: int | None
    removed: bool


@dataclass(slots=True)
class History:
    """The history of one schedd. After a failed query it is not queried again: each costs a timeout."""

    name: str
    answers: bool = True

    def final_ad(self, dag: DAG) -> DagmanAd | None:
        if not self.answers:
            return None
        last_seen = dag.observed_at or dag.submitted_at or dag.created_at
        try:
            return schedd(self.name).finished_dag(
                dag.token, dag.dagman_cluster_id or 0, not_before=last_seen.timestamp()
            )
        except ScheddUnreachable as error:
            logger.warning("no answer from the history of %s: %s", self.name, error)
            self.answers = False
            return None


def observe_dags(*, now: datetime) -> Seen:
    """Observe every live DAG once."""
    seen = Seen()
    by_schedd: dict[str, list[DAG]] = {}
    for dag in DAG.objects.filter(status__in=sorted(IN_QUEUE)).select_related("round").order_by("pk"):
        by_schedd.setdefault(dag.schedd_name, []).append(dag)
    for name in settings.SCHEDDS:  # also those without DAGs, to record whether they answer
        by_schedd.setdefault(name, [])
    rows = schedds.schedd_rows()
    for name, dags in by_schedd.items():
        if schedds.is_fenced(name, rows):
            _end_fenced(dags, now, seen)
            continue
        try:
            if schedds.may_be_asked(name, rows, now=now):
                _observe_schedd(name, dags, now, seen)
                schedds.note_answer(name, now=now)
                if schedds.count_is_due(name, rows, now=now):
                    _share_slots(name, dags, rows, now)
                continue
        except ScheddUnreachable as error:  # its DAGs stay as last observed
            logger.warning("%s does not answer: %s", name, error)
            schedds.note_silence(name, now=now)
        seen.unknown.update(dag.workflow_id for dag in dags)
    return seen


def _share_slots(name: str, dags: list[DAG], rows: schedds.Schedds, now: datetime) -> None:
    """Store how many DAGMans the schedd allows and runs, and share its slots among its DAGs."""
    try:
        limits = schedd(name).limits()
        schedds.note_limits(name, limits, rows, now=now)
        max_groups = share_groups(allowed=limits.allowed, dags=len(dags))
        if max_groups is not None:
            schedd(name).limit_groups([dag.token for dag in dags], max_groups)
    except ScheddUnreachable as error:
        logger.warning("the DAGMans of %s are not counted: %s", name, error)


def _end_fenced(dags: list[DAG], now: datetime, seen: Seen) -> None:
    """End the DAGs of a fenced schedd as stopped: an operator confirmed that they do not run."""
    for dag in dags:
        if dag.stop_requested_at is None:  # its request is stopped first and then waits for this
            continue
        try:
            _finish(dag, Ending(exit_code=None, removed=True), now)
            seen.news.add(dag.workflow_id)
        except OSError as error:
            logger.warning("%s: %s", dag.token, error)
            seen.unreadable[dag.workflow_id] = str(error)


def _observe_schedd(name: str, dags: list[DAG], now: datetime, seen: Seen) -> None:
    ads = schedd(name).query_dags()
    history = History(name)
    sights: list[Sight] = []
    for dag in dags:
        try:
            ad = ads.get(dag.token)
            if ad is not None:
                sights.append(_observe(dag, ad))
            elif (ending := _ending(dag, history, now)) is not None:
                _finish(dag, ending, now)
                seen.news.add(dag.workflow_id)
            elif not history.answers:
                seen.unknown.add(dag.workflow_id)
        except (UnreadableFile, OSError) as error:  # the last good reading stays valid
            logger.warning("%s: %s", dag.token, error)
            seen.unreadable[dag.workflow_id] = str(error)
    seen.news.update(_record(sights, now))


def _observe(dag: DAG, ad: DagmanAd) -> Sight:
    """Read the DAG's state from the queue and the status file, without writing."""
    known = _known.get(dag.pk, Known())
    reading = read_status(Path(f"{dag.dag_file_path}.status"), previous=known.stamp)
    if reading is None:
        return Sight(dag, ad, replace(known, groups=ad.groups), known.groups)
    status = reading.status
    if not _is_of(dag, status):
        return Sight(dag, ad, Known(reading.stamp, known.done, ad.groups), known.groups)
    done = frozenset(status.done)
    fresh = [group_index(name) for name in done - known.done]
    groups = tuple(sorted(index for index in fresh if index is not None))
    now_known = Known(reading.stamp, done, ad.groups)
    return Sight(dag, ad, now_known, known.groups, fresh=groups, failed=status.nodes_failed)


def _record(sights: list[Sight], now: datetime) -> set[UUID]:
    """Store what was observed in one transaction; return the workflows with news."""
    if not sights:
        return set()
    failpoint("monitor.read")
    with transaction.atomic():
        DAG.objects.filter(pk__in=[sight.dag.pk for sight in sights]).update(observed_at=now)
        marked = {sight.dag.pk for sight in sights if sight.fresh and _mark(sight.dag, sight.fresh, now)}
        counts = [count for sight in sights for count in _news_of_groups(sight)]
        count_nodes(counts)
        done = _nodes_done([sight.dag.round_id for sight in sights if sight.dag.pk in marked])
        changes = {sight.dag.pk: _changes(sight, done) for sight in sights}
        rounds = {count.round_id for count in counts}
        _announce({
            sight.dag.workflow_id
            for sight in sights
            if sight.dag.round_id in rounds or _differs(sight.dag, changes[sight.dag.pk])
        })  # fmt: skip
        moving = [sight.dag for sight in sights if changes[sight.dag.pk]["status"] != sight.dag.status]
        moved = {dag.pk for dag in moving if _update(dag, changes[dag.pk], event="observed")}
        stay = [(one.dag, changes[one.dag.pk]) for one in sights if one.dag not in moving]
        _update_counts([(dag, counts) for dag, counts in stay if _differs(dag, counts)])
    failpoint("monitor.recorded")
    _known.update((sight.dag.pk, sight.known) for sight in sights)  # only after the commit
    return {sight.dag.workflow_id for sight in sights if sight.dag.pk in marked | moved}


def _news_of_groups(sight: Sight) -> Iterator[GroupCount]:
    """Yield the groups whose counts differ from the stored ones; a group that left the queue runs no jobs."""
    left = {
        name: GroupNodes(nodes.done, nodes.failed)
        for name, nodes in sight.counted.items()
        if name not in sight.ad.groups
    }
    for name, nodes in (left | dict(sight.ad.groups)).items():
        index = group_index(name)
        if index is not None and sight.counted.get(name) != nodes:
            yield GroupCount(sight.dag.round_id, index, *nodes)


def _changes(sight: Sight, done: Mapping[UUID, int]) -> dict[str, object]:
    dag, ad = sight.dag, sight.ad
    return {
        "status": DAGStatus.HALTED if ad.job_status is JobStatus.HELD else DAGStatus.RUNNING,
        "nodes_idle": ad.jobs_idle,
        "nodes_running": ad.jobs_running,
        "nodes_held": ad.jobs_held,
        "nodes_done": done.get(dag.round_id, dag.nodes_done),
        "nodes_failed": dag.nodes_failed if sight.failed is None else sight.failed,
    }


def _is_of(dag: DAG, status: StatusFile) -> bool:
    """Return whether the status file is of this DAG: it may still be that of the DAG before."""
    return dag.submitted_at is None or status.written_at >= int(dag.submitted_at.timestamp())


def _ending(dag: DAG, history: History, now: datetime) -> Ending | None:
    """Return how the DAG ended, from history or from its files; None while that is unclear."""
    ad = history.final_ad(dag)
    if ad is not None:
        return Ending(exit_code=ad.exit_code, removed=ad.job_status is JobStatus.REMOVED)
    metrics = Path(f"{dag.dag_file_path}.metrics")
    if metrics.exists() and metrics.stat().st_mtime > (dag.submitted_at or now).timestamp():
        final = parse_metrics(metrics.read_bytes())
        return Ending(exit_code=final.exit_code, removed=final.dag_status == 4)
    if not history.answers:
        return None
    last_seen = dag.observed_at or dag.submitted_at or now
    vanished = now - last_seen > timedelta(seconds=settings.DAG_VANISHED_AFTER_SEC)
    return Ending(exit_code=None, removed=False) if vanished else None


def _finish(dag: DAG, ending: Ending, now: datetime) -> None:
    """Store the end of the DAG. Every manifest on disk counts, regardless of the last status file."""
    groups = list(dag.round.groups.all())
    ended = _ended_groups(dag) if dag.round.kind == RoundKind.PULL else None
    done = {
        group.index
        for group in groups
        if _is_credited(group) or (_has_manifest(dag, group) if ended is None else group.name in ended)
    }
    failed = [group.pk for group in groups if group.index not in done]
    counts = [last_count(dag, group) for group in groups if group.index not in done]
    complete = ending.exit_code == 0 and not failed
    # A DAG that ended by itself before its removal was not stopped: its failures count.
    stopped = dag.stop_requested_at is not None and (ending.removed or ending.exit_code is None)
    if stopped and not complete:
        status = DAGStatus.STOPPED
    elif complete:
        status = DAGStatus.COMPLETED
    elif ending.removed:
        status = DAGStatus.REMOVED
    else:
        status = DAGStatus.PARTIAL if done else DAGStatus.FAILED
    rescue = _rescue_of(dag)
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
        count_nodes(counts)
        if status != DAGStatus.STOPPED:
            MergeGroup.objects.filter(pk__in=failed).update(status=GroupStatus.FAILED)
        done_nodes = _nodes_done([dag.round_id]).get(dag.round_id, 0)
        _update(dag, changes | {"nodes_done": done_nodes}, event="ended")
        _announce([dag.workflow_id])
    failpoint("monitor.ended")
    _known.pop(dag.pk, None)


def _rescue_of(dag: DAG) -> Path | None:
    try:
        return highest_rescue(Path(dag.dag_file_path))
    except FileNotFoundError:
        if dag.stop_requested_at is None:  # the disk may be unavailable: its groups have not failed
            raise
        return None  # a stopped DAG must end even without its directory


def _has_manifest(dag: DAG, group: MergeGroup) -> bool:
    return (Path(dag.submit_dir) / group_name(group.index) / "merge_output.json").exists()


def _ended_groups(dag: DAG) -> frozenset[str]:
    """Return the groups of runners whose nodes all succeeded, by the last status file."""
    try:
        reading = read_status(Path(f"{dag.dag_file_path}.status"))
    except (UnreadableFile, OSError):
        return frozenset()
    return (
        frozenset(reading.status.done) if reading is not None and _is_of(dag, reading.status) else frozenset()
    )


def _is_credited(group: MergeGroup) -> bool:
    return group.status in (GroupStatus.DONE, GroupStatus.COLLECTED)


def _mark(dag: DAG, done: Collection[int], now: datetime) -> int:
    """Mark these groups as done; return how many were not before."""
    fresh = dag.round.groups.filter(index__in=done, status__in=[GroupStatus.PLANNED, GroupStatus.FAILED])
    return fresh.update(status=GroupStatus.DONE, dag=dag, finished_at=now)


def _nodes_done(rounds: Collection[UUID]) -> dict[UUID, int]:
    """Return, by round, the number of nodes of the groups that are done."""
    done = MergeGroup.objects.filter(
        round__in=rounds, status__in=[GroupStatus.DONE, GroupStatus.COLLECTED]
    ).order_by()
    sums = done.values_list("round", "round__kind").annotate(groups=Count("id"), jobs=Sum("jobs"))
    return {
        round_: jobs + (0 if kind == RoundKind.PULL else SERVICE_NODES * groups)
        for round_, kind, groups, jobs in sums
    }


def _announce(workflows: Collection[UUID]) -> None:
    """Announce the progress of these workflows to open pages."""
    if workflows:
        announce_requests(*Workflow.objects.filter(pk__in=workflows).values_list("request_name", flat=True))


def _differs(dag: DAG, changes: Mapping[str, object]) -> bool:
    return any(getattr(dag, name) != value for name, value in changes.items())


def _update_counts(changed: Sequence[tuple[DAG, Mapping[str, object]]]) -> None:
    """Store the node counts of DAGs whose status stays, in one statement, by compare-and-set."""
    if not changed:
        return
    counts = ("nodes_idle", "nodes_running", "nodes_held", "nodes_done", "nodes_failed")
    sql = f"""
        UPDATE dags_app_dag AS d SET {", ".join(f"{name} = c.{name}" for name in counts)}
          FROM unnest(%s::uuid[], %s::int[], {", ".join("%s::int[]" for _ in counts)})
            AS c (id, version, {", ".join(counts)})
         WHERE d.id = c.id AND d.version = c.version"""  # noqa: S608 - names of columns, see above
    rows = [(dag.pk, dag.version, *(changes[name] for name in counts)) for dag, changes in changed]
    with connection.cursor() as cursor:
        cursor.execute(sql, [list(column) for column in zip(*rows, strict=True)])


def _update(dag: DAG, changes: dict[str, object], *, event: str) -> bool:
    """Update the DAG by compare-and-set, with an event if the status changed; return whether it did."""
    before = dag.status
    if not _differs(dag, changes):
        return False
    moved = changes["status"] != before
    if moved:
        changes = changes | {"version": F("version") + 1}
    if not DAG.objects.filter(pk=dag.pk, version=dag.version).update(**changes):
        return False  # changed concurrently; the next observation sees both changes
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
