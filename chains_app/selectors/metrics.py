"""Statistics of templates per step: success, durations and retries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

_SQL = """
SELECT t.name, s.step, count(*),
       count(*) FILTER (WHERE s.status = 'finished'),
       count(*) FILTER (WHERE s.status = 'skipped'),
       count(*) FILTER (WHERE s.status = 'held'),
       count(*) FILTER (WHERE s.status = 'cancelled'),
       coalesce(sum(s.tries - 1), 0),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM s.status_since - s.started_at))
           FILTER (WHERE s.status = 'finished'),
       percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM s.status_since - s.started_at))
           FILTER (WHERE s.status = 'finished')
  FROM chains_app_chainstep s
  JOIN chains_app_chain c ON c.id = s.chain_id
  JOIN chains_app_template t ON t.id = c.template_id
 WHERE c.created_at >= %s
 GROUP BY t.name, s.step
 ORDER BY t.name, min(s.id)"""


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """One step of a template over all chains of a time window."""

    template: str
    step: str
    calls: int
    finished: int
    skipped: int
    held: int
    cancelled: int
    retries: int
    success: float | None
    p50_sec: float | None
    p95_sec: float | None


def template_metrics(*, now: datetime, days: int) -> list[StepMetrics]:
    """Return the statistics of every step of the chains created in the last days."""
    with connection.cursor() as cursor:
        cursor.execute(_SQL, [now - timedelta(days=days)])
        return [_metrics(row) for row in cursor.fetchall()]


def _metrics(row: tuple[object, ...]) -> StepMetrics:
    name, step, calls, finished, skipped, held, cancelled, retries, p50, p95 = row
    ended = int(str(finished)) + int(str(held)) + int(str(cancelled))
    return StepMetrics(
        template=str(name),
        step=str(step),
        calls=int(str(calls)),
        finished=int(str(finished)),
        skipped=int(str(skipped)),
        held=int(str(held)),
        cancelled=int(str(cancelled)),
        retries=int(str(retries)),
        success=round(int(str(finished)) / ended, 4) if ended else None,
        p50_sec=None if p50 is None else round(float(str(p50)), 1),
        p95_sec=None if p95 is None else round(float(str(p95)), 1),
    )
