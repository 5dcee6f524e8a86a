"""Progress of requests by events: one aggregate query, for a page of requests or for one in detail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from math import ceil, sqrt
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.utils import timezone

from dags_app.planning.types import SERVICE_NODES
from requests_app.models import Request
from requests_app.states import SWEPT, RequestStatus

RECENT_SEC = 3600.0  # the pace is measured over the last hour if enough groups finished
ENOUGH_GROUPS = 3
NO_GUESS_BELOW = 0.05
BAND = 1.28  # standard deviations: 80 % confidence
FORESEEABLE_SEC = 10 * 365 * 86_400.0  # later estimates are meaningless and may exceed the datetime range
SHOWN_GROUPS = 200

# Events of a group's finished jobs, until its outputs are collected. The first node is the landing.
RUNNING_EVENTS = """CASE m.status WHEN 'collected' THEN 0 WHEN 'done' THEN m.input_events
  ELSE m.input_events * least(greatest(m.nodes_done - 1, 0), m.jobs) / m.jobs END"""
# Unfinished work of a closed round is planned again and counted there.
GROUP_PARTS = f"""
LEFT JOIN LATERAL (
  SELECT count(*) AS groups, count(*) FILTER (WHERE m.status = 'collected') AS done, sum(m.jobs) AS jobs,
         sum(m.events_read) AS read, sum(m.events_written) AS written, sum(m.input_events) AS planned,
         sum(m.input_events) FILTER (WHERE m.status = 'collected' AND d.status = 'planned') AS open_done,
         sum({RUNNING_EVENTS}) AS running,
         min(d.created_at) AS began,
         count(*) FILTER (WHERE m.finished_at > %(recent)s) AS recent_groups,
         sum(m.events_read) FILTER (WHERE m.finished_at > %(recent)s) AS recent_read
    FROM dags_app_mergegroup m JOIN dags_app_round d ON d.id = m.round_id
   WHERE d.workflow_id = w.id AND (d.status = 'planned' OR m.status = 'collected')) g ON true"""  # noqa: S608 — ours
PARTS = f"""{GROUP_PARTS}
LEFT JOIN LATERAL (
  SELECT count(*) AS blocks, count(*) FILTER (WHERE k.status = 'announced') AS announced,
         sum(p.files) AS files
    FROM outputs_app_outputdataset s
    JOIN outputs_app_outputblock k ON k.dataset_id = s.id
    LEFT JOIN LATERAL (
      SELECT count(*) AS files FROM outputs_app_outputfile WHERE block_id = k.id) p ON true
   WHERE s.workflow_id = w.id) b ON true"""  # noqa: S608 — ours
SUMS = """
SELECT w.id, w.total_events, w.filter_efficiency, w.input_dataset IS NULL, w.input_events,
       w.input_events_excluded, w.input_events_done, g.open_done, g.running, g.groups, g.done, g.jobs, g.read,
       g.written, g.planned, g.began, g.recent_groups, g.recent_read, b.blocks, b.announced, b.files"""
# Groups with the nodes of their DAGs. All nodes of a finished group count as done.
COUNTED = f"""(
  SELECT g.id, g.round_id, g.index, g.status, g.site, g.jobs, g.input_events, g.events_read, g.events_written,
         g.finished_at, n.nodes,
         CASE WHEN n.complete THEN n.nodes ELSE least(g.nodes_done, n.nodes) END AS nodes_done,
         CASE WHEN n.complete THEN 0 ELSE least(g.nodes_failed, n.nodes - least(g.nodes_done, n.nodes)) END
           AS nodes_failed,
         CASE WHEN n.complete THEN 0 ELSE g.nodes_running END AS nodes_running,
         CASE WHEN n.complete THEN 0 ELSE g.nodes_idle END AS nodes_idle,
         CASE WHEN n.complete THEN 0 ELSE g.nodes_held END AS nodes_held
    FROM dags_app_mergegroup g, LATERAL (
         SELECT g.jobs + {SERVICE_NODES} AS nodes, g.status IN ('done', 'collected') AS complete) n)"""  # noqa: S608 — ours
_PAGE = f"{SUMS} FROM dags_app_workflow w {PARTS} WHERE w.id = ANY(%(workflows)s)"
_WITHOUT_OUTPUTS = "LEFT JOIN LATERAL (SELECT 0 AS blocks, 0 AS announced, 0 AS files) b ON true"
_PACES = f"{SUMS} FROM dags_app_workflow w {GROUP_PARTS} {_WITHOUT_OUTPUTS} WHERE w.id = ANY(%(workflows)s)"
_DETAIL = f"""{SUMS}, x.rounds, y.groups, z.dag FROM dags_app_workflow w {PARTS}
LEFT JOIN LATERAL (
  SELECT json_agg(r ORDER BY r.number) AS rounds FROM (
    SELECT d.number, d.kind, d.status, d.jobs, d.input_events, d.created_at, d.resolved_at,
           count(m.id) AS groups,
           count(m.id) FILTER (WHERE m.status = 'planned') AS planned,
           count(m.id) FILTER (WHERE m.status = 'done') AS done,
           count(m.id) FILTER (WHERE m.status = 'collected') AS collected,
           count(m.id) FILTER (WHERE m.status = 'failed') AS failed,
           coalesce(sum(m.events_read), 0) AS events_read,
           coalesce(sum(m.events_written), 0) AS events_written,
           coalesce(round(least(sum(m.events_read + {RUNNING_EVENTS})::numeric
                               / nullif(d.input_events, 0), 1), 4), 0)
             AS fraction,
           coalesce(sum(m.nodes), 0) AS nodes, coalesce(sum(m.nodes_done), 0) AS nodes_done,
           coalesce(sum(m.nodes_failed), 0) AS nodes_failed,
           coalesce(sum(m.nodes - m.nodes_done - m.nodes_failed) FILTER (WHERE m.status = 'failed'), 0)
             AS nodes_skipped,
           greatest(d.jobs - coalesce(sum(m.jobs), 0), 0) AS jobs_dropped
      FROM dags_app_round d LEFT JOIN {COUNTED} m ON m.round_id = d.id
     WHERE d.workflow_id = w.id GROUP BY d.id) r) x ON true
LEFT JOIN LATERAL (
  SELECT json_agg(n ORDER BY n.index) AS groups FROM (
    SELECT m.index, m.status, m.site, m.jobs, m.nodes_done, m.nodes_failed, m.nodes_running, m.nodes_idle,
           m.nodes_held, m.input_events, m.events_read, m.events_written, m.finished_at
      FROM {COUNTED} m
     WHERE m.round_id = (SELECT id FROM dags_app_round WHERE workflow_id = w.id ORDER BY number DESC LIMIT 1)
     ORDER BY m.index LIMIT {SHOWN_GROUPS}) n) y ON true
LEFT JOIN LATERAL (
  SELECT row_to_json(v) AS dag FROM (
    SELECT token, status, nodes_running, nodes_idle, nodes_held FROM dags_app_dag
     WHERE workflow_id = w.id AND status IN ('submitted', 'running', 'halted')
     ORDER BY created_at DESC LIMIT 1) v) z ON true
WHERE w.id = ANY(%(workflows)s)"""  # noqa: S608 — ours
_NODES = ("nodes", "nodes_done", "nodes_failed", "nodes_skipped", "jobs_dropped")


class Subject(NamedTuple):
    """Identifies a request whose progress is read."""

    request_id: UUID
    workflow_id: UUID
    status: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a request by events.

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
    """Processing rate, number of groups it is based on, and interval of the estimated end."""

    events_per_sec: float
    groups_seen: int
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


def progress_of(request: Request) -> Progress:
    return progress_of_many([request])[request.pk]


def progress_of_many(requests: Sequence[Request]) -> dict[UUID, Progress]:
    return progress_of_subjects([Subject(one.pk, one.workflow_id, one.status) for one in requests])


def progress_of_subjects(subjects: Sequence[Subject]) -> dict[UUID, Progress]:
    """Return the progress of all subjects in one query."""
    now = timezone.now()
    rows = _read(_PAGE, [one.workflow_id for one in subjects], now)
    sums = {row[0]: _Sums(*row) for row in rows}
    return {one.request_id: _progress(one.status, sums[one.workflow_id], now)[0] for one in subjects}


def paced_progress(subjects: Sequence[Subject], *, now: datetime) -> dict[UUID, tuple[Progress, Pace]]:
    """Return progress and pace of all subjects in one query that reads no outputs."""
    rows = _read(_PACES, [one.workflow_id for one in subjects], now)
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
    (row,) = _read(_DETAIL, [request.workflow_id], now)
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
    if sums.generates:
        needed = 0 if finished else ceil((sums.wanted or 0) / sums.filter_efficiency)
        total, done = max(planned, needed), int(sums.read or 0)
    else:
        total = sums.input_events
        done = min(max(sums.input_done + int(sums.open_done or 0), int(sums.read or 0)), total)
    possible = total - sums.excluded
    running = min(int(sums.running or 0), max(total - done, 0)) if status in SWEPT else 0
    fraction = min((possible if finished else done + running) / total, 1.0) if total else float(finished)
    left = possible - done if status in SWEPT else 0
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
    spread = BAND / sqrt(seen)
    return Pace(
        rate,
        seen,
        estimated_completion=_after(now, left / rate),
        earliest=_after(now, left / (rate * (1 + spread))),
        latest=_after(now, left / (rate * max(1 - spread, 0.1))),
    )


def _after(now: datetime, seconds: float) -> datetime | None:
    """Return the moment, or None if it is too far ahead."""
    return now + timedelta(seconds=seconds) if seconds <= FORESEEABLE_SEC else None
