"""Progress samples: recorded while requests change, and thinned with age.

A burn-down chart and the state of a request at an earlier time are read from them
(`requests_app.selectors.history`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection

from dags_app.states import LIVE_DAG
from requests_app.models import ProgressSample
from requests_app.selectors.progress import Pace, Progress, Subject, paced_progress
from requests_app.states import TAKES_CAPACITY, TERMINAL

ENDED_LATELY = timedelta(hours=1)
# Seconds between samples of a running request: a sixtieth of the time that its DAG runs, within these limits
INTERVALS_SEC = (5, 60)
# After this time, only the last sample of each interval is kept
THINNING = (
    (timedelta(hours=2), timedelta(minutes=10)),
    (timedelta(days=2), timedelta(hours=2)),
)
# Requests to be compared with their last sample: open or lately ended ones, whose status or gate changed, and
# running ones whose last sample is old enough.
_CANDIDATES = """
WITH r AS (
  SELECT * FROM requests_app_request WHERE NOT status = ANY(%(terminal)s)
  UNION ALL
  SELECT * FROM requests_app_request WHERE status = ANY(%(terminal)s) AND status_since > %(lately)s)
SELECT r.id, r.workflow_id, r.status, r.wait_gate, r.wait_reason,
       coalesce(d.nodes_running, 0), coalesce(d.nodes_idle, 0), coalesce(d.nodes_held, 0),
       s.status, s.gate, s.events_total, s.events_done, s.events_running, s.events_excluded, s.groups_total,
       s.groups_done, s.jobs_running, s.jobs_idle, s.jobs_held
  FROM r
  LEFT JOIN LATERAL (
    SELECT submitted_at, nodes_running, nodes_idle, nodes_held FROM dags_app_dag
     WHERE workflow_id = r.workflow_id AND status = ANY(%(live)s) LIMIT 1) d ON true
  LEFT JOIN LATERAL (
    SELECT * FROM requests_app_progresssample WHERE request_id = r.id ORDER BY at DESC LIMIT 1) s ON true
 WHERE s.id IS NULL OR s.status <> r.status OR s.gate <> r.wait_gate
    OR (r.status = ANY(%(running)s) AND s.at <= %(now)s - make_interval(secs => least(%(most)s, greatest(
         %(fewest)s, extract(epoch FROM %(now)s - coalesce(d.submitted_at, r.status_since)) / 60))))"""
_THIN = """
WITH old AS (
  SELECT id, row_number() OVER (
           PARTITION BY request_id, date_bin(%(interval)s, at, 'epoch') ORDER BY at DESC) AS rank
    FROM requests_app_progresssample
   WHERE thinning = %(level)s AND at < date_bin(%(interval)s, %(before)s, 'epoch')),
gone AS (
  DELETE FROM requests_app_progresssample s USING old WHERE s.id = old.id AND old.rank > 1)
UPDATE requests_app_progresssample s SET thinning = thinning + 1
  FROM old WHERE s.id = old.id AND old.rank = 1"""


class _Candidate(NamedTuple):
    """A request with the counts of its DAG, and its last sample; None without one."""

    request_id: UUID
    workflow_id: UUID
    status: str
    gate: str
    reason: str
    jobs_running: int
    jobs_idle: int
    jobs_held: int
    last: tuple[Any, ...]

    @property
    def subject(self) -> Subject:
        return Subject(self.request_id, self.workflow_id, self.status)


def record_samples(*, now: datetime) -> int:
    """Insert a sample of every request that changed since its last one; return how many. Three queries."""
    low, high = INTERVALS_SEC
    values: dict[str, Any] = {
        "terminal": sorted(TERMINAL), "live": sorted(LIVE_DAG), "running": sorted(TAKES_CAPACITY),
        "lately": now - ENDED_LATELY, "now": now, "fewest": low, "most": high,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_CANDIDATES, values)
        found = [_Candidate._make([*row[:8], row[8:]]) for row in cursor.fetchall()]
    if not found:
        return 0
    progress = paced_progress([one.subject for one in found], now=now)
    samples = [_sample(one, *progress[one.request_id], now) for one in found]
    changed = [sample for sample, one in zip(samples, found, strict=True) if _compared(sample) != one.last]
    ProgressSample.objects.bulk_create(changed, ignore_conflicts=True)
    return len(changed)


def _sample(one: _Candidate, progress: Progress, pace: Pace, now: datetime) -> ProgressSample:
    return ProgressSample(
        request_id=one.request_id,
        at=now,
        status=one.status,
        gate=one.gate,
        reason=one.reason,
        events_total=progress.events_total,
        events_done=progress.events_done,
        events_running=progress.events_running,
        events_excluded=progress.events_excluded,
        groups_total=progress.groups_total,
        groups_done=progress.groups_done,
        jobs_running=one.jobs_running,
        jobs_idle=one.jobs_idle,
        jobs_held=one.jobs_held,
        estimated_completion=pace.estimated_completion,
        earliest=pace.earliest,
        latest=pace.latest,
    )


def _compared(sample: ProgressSample) -> tuple[Any, ...]:
    """Return what makes a sample worth a row, in the order of the query."""
    return (
        sample.status, sample.gate, sample.events_total, sample.events_done, sample.events_running,
        sample.events_excluded, sample.groups_total, sample.groups_done, sample.jobs_running,
        sample.jobs_idle, sample.jobs_held,
    )  # fmt: skip


def thin_samples(*, now: datetime) -> None:
    """Keep fewer samples the older they are, and none beyond `KEEP_SAMPLES_DAYS`."""
    with connection.cursor() as cursor:
        for level, (after, interval) in enumerate(THINNING):
            values: dict[str, Any] = {"level": level, "interval": interval, "before": now - after}
            cursor.execute(_THIN, values)
    oldest = now - timedelta(days=settings.KEEP_SAMPLES_DAYS)
    ProgressSample.objects.filter(thinning__lte=len(THINNING), at__lt=oldest).delete()
