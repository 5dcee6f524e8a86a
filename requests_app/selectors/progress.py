"""Progress of requests by events, of pull requests by files: one aggregate query for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from math import ceil, sqrt
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.utils import timezone

from requests_app.models import Request
from requests_app.selectors.progress_sql import DETAIL, PACES, PAGE, PARTS, SUMS
from requests_app.states import SWEPT, RequestStatus

RECENT_SEC = 3600.0  # the pace is measured over the last hour if enough groups finished
ENOUGH_GROUPS = 3
NO_GUESS_BELOW = 0.05
BAND = 1.28  # standard deviations: 80 % confidence
FORESEEABLE_SEC = 10 * 365 * 86_400.0  # later estimates are meaningless and may exceed the datetime range

_NODES = ("nodes", "nodes_done", "nodes_failed", "nodes_skipped", "jobs_dropped")


class Subject(NamedTuple):
    """Identifies a request whose progress is read."""

    request_id: UUID
    workflow_id: UUID
    status: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a request by events. The fraction of a pull request is that of its files.

    `events_total` grows while rounds are being planned. It includes excluded events, so a request that
    completes without them ends below 1.
    """

    fraction: Annotated[float, {"min_value": 0, "max_value": 1}]
    events_total: int
    events_done: int
    events_running: Annotated[int, "Events of finished jobs in groups whose outputs are not collected yet."]
    events_excluded: Annotated[int, "Events of the total that are excluded from processing."]
    events_written: int
    groups_total: int
    groups_done: int
    jobs_total: int
    files: int
    blocks: int
    blocks_announced: int
    estimated_completion: datetime | None


@dataclass(frozen=True, slots=True)
class Pace:
    """Processing rate, number of groups (pull: files) it is based on, and interval of the estimated end."""

    events_per_sec: float
    groups_seen: Annotated[int, "Groups, or files of a pull request, that the rate is based on."]
    estimated_completion: datetime | None = None
    earliest: datetime | None = None
    latest: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """DAG nodes of all rounds: jobs, landing, merge and cleanup of each group."""

    total: int
    completed: int
    running: Annotated[int, "Nodes whose jobs run."]
    idle: Annotated[int, "Nodes whose jobs wait in the queue."]
    held: Annotated[int, "Nodes whose jobs are held."]
    waiting: Annotated[int, "Not in the queue yet: they wait for their parents or for DAGMan's limits."]
    failed: int
    skipped: Annotated[int, "Not run, because a parent failed or no input is left."]


@dataclass(frozen=True, slots=True)
class RunningDAG:
    """The running DAG."""

    node_id: str
    task_id: Annotated[str, "The DAG's batch name in HTCondor."]
    progress_percent: float
    progress_message: str


@dataclass(frozen=True, slots=True)
class RoundProgress:
    """One round."""

    number: int
    kind: str
    status: str
    fraction: float
    jobs: int
    input_events: int
    events_read: int
    events_written: int
    groups: int
    planned: Annotated[int, "Unfinished groups."]
    done: Annotated[int, "Finished groups whose outputs are not collected yet."]
    collected: int
    failed: int
    created_at: str
    resolved_at: str | None


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """One merge group of the newest round."""

    index: int
    status: str
    site: str
    jobs: int
    nodes_done: Annotated[int, "Nodes of its jobs, landing, merge and cleanup."]
    nodes_failed: int
    nodes_running: Annotated[int, "Nodes whose jobs run."]
    nodes_idle: Annotated[int, "Nodes whose jobs wait in the queue."]
    nodes_held: Annotated[int, "Nodes whose jobs are held."]
    input_events: int
    events_read: int
    events_written: int
    finished_at: str | None


@dataclass(frozen=True, slots=True)
class ProgressDetail(Progress):
    """The progress of one request."""

    request_name: str
    status: str
    overall_percent: float
    nodes: NodeCounts
    current_tasks: list[RunningDAG]
    pace: Pace
    rounds: list[RoundProgress]
    groups: list[GroupProgress]


class _Sums(NamedTuple):
    """One row of the query, in column order."""

    workflow_id: UUID
    wanted: int | None
    filter_efficiency: float
    generates: bool
    input_events: int
    excluded: int
    input_done: int
    open_done: int | None
    running: int | None
    groups: int
    groups_done: int
    jobs: int | None
    read: int | None
    written: int | None
    planned: int | None
    began: datetime | None
    recent_groups: int
    recent_read: int | None
    blocks: int
    announced: int
    files: int | None
    lent_files: int  # the files of a pull request; 0 for others
    lent_done: int
    lent_excluded: int
    lent_events: int | None
    lent_events_done: int | None
    lent_recent: int | None
    lent_began: datetime | None


def progress_of(request: Request) -> Progress:
    return progress_of_many([request])[request.pk]


def progress_of_many(requests: Sequence[Request]) -> dict[UUID, Progress]:
    return progress_of_subjects([Subject(one.pk, one.workflow_id, one.status) for one in requests])


def progress_of_subjects(subjects: Sequence[Subject]) -> dict[UUID, Progress]:
    """Return the progress of all subjects in one query."""
    now = timezone.now()
    rows = _read(PAGE, [one.workflow_id for one in subjects], now)
    sums = {row[0]: _Sums(*row) for row in rows}
    return {one.request_id: _progress(one.status, sums[one.workflow_id], now)[0] for one in subjects}


def paced_progress(subjects: Sequence[Subject], *, now: datetime) -> dict[UUID, tuple[Progress, Pace]]:
    """Return progress and pace of all subjects in one query that reads no outputs."""
    rows = _read(PACES, [one.workflow_id for one in subjects], now)
    sums = {row[0]: _Sums(*row) for row in rows}
    return {one.request_id: _progress(one.status, sums[one.workflow_id], now) for one in subjects}


def progress_with(request: Request, columns: str) -> tuple[Progress, list[Any]]:
    """Return the progress and, from the same query, extra columns of the request (r) and workflow (w)."""
    now = timezone.now()
    source = f"dags_app_workflow w JOIN requests_app_request r ON r.workflow_id = w.id {PARTS}"
    sql = f"{SUMS}, {columns} FROM {source} WHERE w.id = ANY(%(workflows)s)"
    (row,) = _read(sql, [request.workflow_id], now)
    sums, more = row[: len(_Sums._fields)], row[len(_Sums._fields) :]
    return _progress(request.status, _Sums(*sums), now)[0], list(more)


def detail_of(request: Request) -> ProgressDetail:
    """Return the progress with its pace, rounds, newest groups and running DAG."""
    now = timezone.now()
    (row,) = _read(DETAIL, [request.workflow_id], now)
    *sums, found, groups, dag = row
    progress, pace = _progress(request.status, _Sums(*sums), now)
    nodes = {name: sum(one.pop(name) for one in found or ()) for name in _NODES}
    rounds = [RoundProgress(**one) for one in found or ()]
    return ProgressDetail(
        **asdict(progress),
        request_name=request.request_name,
        status=request.status,
        overall_percent=round(100 * progress.fraction, 1),
        nodes=_node_counts(nodes, dag or {}),
        current_tasks=[_running(dag, rounds[-1])] if dag and rounds else [],
        pace=pace,
        rounds=rounds,
        groups=[GroupProgress(**one) for one in groups or ()],
    )


def _node_counts(sums: Mapping[str, int], dag: Mapping[str, Any]) -> NodeCounts:
    """Skipped nodes are unreachable in a failed group, or were left without input by a repair."""
    left = sums["nodes"] - sums["nodes_done"] - sums["nodes_failed"] - sums["nodes_skipped"]
    queued = {}
    for state in ("running", "idle", "held"):  # the parts never exceed the total
        queued[state] = min(dag.get(f"nodes_{state}", 0), left)
        left -= queued[state]
    return NodeCounts(
        total=sums["nodes"] + sums["jobs_dropped"],
        completed=sums["nodes_done"],
        **queued,
        waiting=left,
        failed=sums["nodes_failed"],
        skipped=sums["nodes_skipped"] + sums["jobs_dropped"],
    )


def _running(dag: dict[str, Any], newest: RoundProgress) -> RunningDAG:
    return RunningDAG(
        node_id=f"round {newest.number}",
        task_id=dag["token"],
        progress_percent=round(100 * newest.fraction, 1),
        progress_message=(
            f"{newest.done + newest.collected} of {newest.groups} groups done,"
            f" {dag['nodes_running']} jobs running, {dag['nodes_idle']} idle, {dag['nodes_held']} held"
        ),
    )


def _read(sql: str, workflows: list[UUID], now: datetime) -> list[tuple[Any, ...]]:
    values: dict[str, Any] = {"workflows": workflows, "recent": now - timedelta(seconds=RECENT_SEC)}
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def _progress(status: str, sums: _Sums, now: datetime) -> tuple[Progress, Pace]:
    finished = status == RequestStatus.COMPLETED
    planned = int(sums.planned or 0)
    if sums.lent_files:
        total, done = int(sums.lent_events or 0), int(sums.lent_events_done or 0)
    elif sums.generates:
        needed = 0 if finished else ceil((sums.wanted or 0) / sums.filter_efficiency)
        total, done = max(planned, needed), int(sums.read or 0)
    else:
        total = sums.input_events
        done = min(max(sums.input_done + int(sums.open_done or 0), int(sums.read or 0)), total)
    possible = total - sums.excluded
    running = min(int(sums.running or 0), max(total - done, 0)) if status in SWEPT else 0
    fraction = min((possible if finished else done + running) / total, 1.0) if total else float(finished)
    left = possible - done if status in SWEPT else 0
    if sums.lent_files:
        some = sums.lent_files - sums.lent_excluded
        fraction = (some if finished else sums.lent_done) / sums.lent_files
        pace = decide_pull_pace(sums, left=some - sums.lent_done if status in SWEPT else 0, now=now)
    else:
        pace = decide_pace(sums, left=left, fraction=fraction, now=now)
    progress = Progress(
        fraction=round(fraction, 4),
        events_total=total,
        events_done=done,
        events_running=running,
        events_excluded=sums.excluded,
        events_written=int(sums.written or 0),
        groups_total=sums.groups,
        groups_done=sums.groups_done,
        jobs_total=int(sums.jobs or 0),
        files=int(sums.files or 0),
        blocks=sums.blocks,
        blocks_announced=sums.announced,
        estimated_completion=pace.estimated_completion,
    )
    return progress, pace


def decide_pace(sums: _Sums, *, left: int, fraction: float, now: datetime) -> Pace:
    """Return the pace of the last hour if enough groups finished, else the overall pace, and the end."""
    if sums.began is None:
        return Pace(0.0, 0)
    seconds = max((now - sums.began).total_seconds(), 1.0)
    seen, read = sums.groups_done, int(sums.read or 0)
    if sums.recent_groups >= ENOUGH_GROUPS and seconds > RECENT_SEC:
        seconds, seen, read = RECENT_SEC, sums.recent_groups, int(sums.recent_read or 0)
    rate = read / seconds
    if left <= 0 or not rate or not seen or fraction < NO_GUESS_BELOW:
        return Pace(rate, seen)
    return _with_end(Pace(rate, seen), left / rate, now)


def decide_pull_pace(sums: _Sums, *, left: int, now: datetime) -> Pace:
    """Return the pace of a pull request: files of the last hour, else of all time."""
    if sums.lent_began is None or not sums.lent_done:
        return Pace(0.0, 0)
    seconds, seen = max((now - sums.lent_began).total_seconds(), 1.0), sums.lent_done
    recent = int(sums.lent_recent or 0)
    if recent >= ENOUGH_GROUPS and seconds > RECENT_SEC:
        seconds, seen = RECENT_SEC, recent
    per_file = int(sums.lent_events_done or 0) / sums.lent_done
    pace = Pace(per_file * seen / seconds, seen)
    if left <= 0 or sums.lent_done < NO_GUESS_BELOW * sums.lent_files:
        return pace
    return _with_end(pace, left * seconds / seen, now)


def _with_end(pace: Pace, seconds: float, now: datetime) -> Pace:
    """Return the pace with the end, which is expected in so many seconds."""
    spread = BAND / sqrt(pace.groups_seen)
    return replace(
        pace,
        estimated_completion=_after(now, seconds),
        earliest=_after(now, seconds / (1 + spread)),
        latest=_after(now, seconds / max(1 - spread, 0.1)),
    )


def _after(now: datetime, seconds: float) -> datetime | None:
    """Return the moment, or None if it is too far ahead."""
    return now + timedelta(seconds=seconds) if seconds <= FORESEEABLE_SEC else None
