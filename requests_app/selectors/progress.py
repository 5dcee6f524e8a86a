"""Progress of requests by events: one aggregate query, for a page of requests or for one in detail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, sqrt
from typing import Any, NamedTuple
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

# Unfinished work of a closed round is planned again and counted there.
GROUP_PARTS = """
LEFT JOIN LATERAL (
  SELECT count(*) AS groups, count(*) FILTER (WHERE m.status = 'collected') AS done, sum(m.jobs) AS jobs,
         sum(m.events_read) AS read, sum(m.events_written) AS written, sum(m.input_events) AS planned,
         sum(m.input_events) FILTER (WHERE m.status = 'collected' AND d.status = 'planned') AS open_done,
         min(d.created_at) AS began,
         count(*) FILTER (WHERE m.finished_at > %(recent)s) AS recent_groups,
         sum(m.events_read) FILTER (WHERE m.finished_at > %(recent)s) AS recent_read
    FROM dags_app_mergegroup m JOIN dags_app_round d ON d.id = m.round_id
   WHERE d.workflow_id = w.id AND (d.status = 'planned' OR m.status = 'collected')) g ON true"""
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
       w.input_events_excluded, w.input_events_done, g.open_done, g.groups, g.done, g.jobs, g.read,
       g.written, g.planned, g.began, g.recent_groups, g.recent_read, b.blocks, b.announced, b.files"""
# Groups with the nodes of their DAGs. All nodes of a finished group count as done.
COUNTED = f"""(
  SELECT g.id, g.round_id, g.index, g.status, g.site, g.jobs, g.input_events, g.events_read, g.events_written,
         g.finished_at, n.nodes,
         CASE WHEN n.complete THEN n.nodes ELSE least(g.nodes_done, n.nodes) END AS nodes_done,
         CASE WHEN n.complete THEN 0 ELSE least(g.nodes_failed, n.nodes - least(g.nodes_done, n.nodes)) END
           AS nodes_failed
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
           coalesce(sum(m.nodes), 0) AS nodes, coalesce(sum(m.nodes_done), 0) AS nodes_done,
           coalesce(sum(m.nodes_failed), 0) AS nodes_failed,
           coalesce(sum(m.nodes - m.nodes_done - m.nodes_failed) FILTER (WHERE m.status = 'failed'), 0)
             AS nodes_skipped,
           greatest(d.jobs - coalesce(sum(m.jobs), 0), 0) AS jobs_dropped
      FROM dags_app_round d LEFT JOIN {COUNTED} m ON m.round_id = d.id
     WHERE d.workflow_id = w.id GROUP BY d.id) r) x ON true
LEFT JOIN LATERAL (
  SELECT json_agg(n ORDER BY n.index) AS groups FROM (
    SELECT m.index, m.status, m.site, m.jobs, m.nodes_done, m.nodes_failed, m.input_events, m.events_read,
           m.events_written, m.finished_at
      FROM {COUNTED} m
     WHERE m.round_id = (SELECT id FROM dags_app_round WHERE workflow_id = w.id ORDER BY number DESC LIMIT 1)
     ORDER BY m.index LIMIT {SHOWN_GROUPS}) n) y ON true
LEFT JOIN LATERAL (
  SELECT row_to_json(v) AS dag FROM (
    SELECT token, status, nodes_running, nodes_idle, nodes_held FROM dags_app_dag
     WHERE workflow_id = w.id AND status IN ('submitted', 'running', 'halted')
     ORDER BY created_at DESC LIMIT 1) v) z ON true
WHERE w.id = ANY(%(workflows)s)"""  # noqa: S608 — ours


class Subject(NamedTuple):
    """Identifies a request whose progress is read."""

    request_id: UUID
    workflow_id: UUID
    status: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a request by events. `events_total` grows while rounds are being planned.

    Excluded events count in the total, so a request that completes without them ends below 1.
    """

    fraction: float
    events_total: int
    events_done: int
    events_excluded: int
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
    """Processing rate and estimated completion. The interval is wider when fewer groups have finished."""

    events_per_sec: float
    groups_seen: int
    estimated_completion: datetime | None = None
    earliest: datetime | None = None
    latest: datetime | None = None


@dataclass(frozen=True, slots=True)
class Detail:
    """The progress of one request with its pace, rounds, newest groups and running DAG."""

    progress: Progress
    pace: Pace
    rounds: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    dag: dict[str, Any] | None


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
    return progress_of_subjects([_subject(request) for request in requests])


def progress_of_subjects(subjects: Sequence[Subject]) -> dict[UUID, Progress]:
    """Return the progress of all subjects in one query."""
    now = timezone.now()
    rows = _read(_PAGE, [one.workflow_id for one in subjects], now)
    sums = {row[0]: _Sums(*row) for row in rows}
    return {one.request_id: _progress(one.status, sums[one.workflow_id], now)[0] for one in subjects}


def paces_of_subjects(subjects: Sequence[Subject], *, now: datetime) -> dict[UUID, Pace]:
    """Return the pace of all subjects in one query that reads no outputs."""
    rows = _read(_PACES, [one.workflow_id for one in subjects], now)
    sums = {row[0]: _Sums(*row) for row in rows}
    return {one.request_id: _progress(one.status, sums[one.workflow_id], now)[1] for one in subjects}


def progress_with(request: Request, columns: str) -> tuple[Progress, list[Any]]:
    """Return the progress and, from the same query, extra columns of the request (r) and workflow (w)."""
    now = timezone.now()
    source = f"dags_app_workflow w JOIN requests_app_request r ON r.workflow_id = w.id {PARTS}"
    sql = f"{SUMS}, {columns} FROM {source} WHERE w.id = ANY(%(workflows)s)"
    (row,) = _read(sql, [request.workflow_id], now)
    sums, more = row[: len(_Sums._fields)], row[len(_Sums._fields) :]
    return _progress(request.status, _Sums(*sums), now)[0], list(more)


def _subject(request: Request) -> Subject:
    return Subject(request.pk, request.workflow_id, request.status)


def detail_of(request: Request) -> Detail:
    """Return the progress with pace, rounds and groups."""
    now = timezone.now()
    (row,) = _read(_DETAIL, [request.workflow_id], now)
    *sums, rounds, groups, dag = row
    progress, pace = _progress(request.status, _Sums(*sums), now)
    return Detail(progress, pace, rounds or [], groups or [], dag)


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
    fraction = min((possible if finished else done) / total, 1.0) if total else float(finished)
    left = possible - done if status in SWEPT else 0
    pace = decide_pace(sums, left=left, fraction=fraction, now=now)
    progress = Progress(
        fraction=round(fraction, 4),
        events_total=total,
        events_done=done,
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


def node_counts(detail: Detail) -> dict[str, int]:
    """Count the DAG nodes of the request: jobs, landing, merge and cleanup of each group.

    Skipped nodes are unreachable in a failed group, or were left without input by a repair.
    """

    def sum_of(*names: str) -> int:
        return sum(int(one[name]) for one in detail.rounds for name in names)

    total, skipped = sum_of("nodes", "jobs_dropped"), sum_of("nodes_skipped", "jobs_dropped")
    completed, failed = sum_of("nodes_done"), sum_of("nodes_failed")
    left = total - completed - failed - skipped
    running = min(detail.dag["nodes_running"] if detail.dag else 0, left)
    return {
        "total": total,
        "completed": completed,
        "running": running,
        "pending": left - running,
        "failed": failed,
        "skipped": skipped,
    }
