"""Statistics over a bounded window of the status history: outcomes, durations, failures, throughput."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from django.db import connection

ROWS = 100
_ENDED = """
SELECT r.campaign, count(*) AS total,
       count(*) FILTER (WHERE t.to_status = 'completed') AS completed,
       count(*) FILTER (WHERE t.to_status = 'failed') AS failed,
       count(*) FILTER (WHERE t.to_status = 'aborted') AS aborted,
       round(avg((t.to_status = 'completed')::int), 4)::float8 AS success_rate,
       avg(d.sec) FILTER (WHERE t.to_status = 'completed') AS avg_duration_sec,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY d.sec) FILTER (WHERE t.to_status = 'completed')
         AS p50_duration_sec,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY d.sec) FILTER (WHERE t.to_status = 'completed')
         AS p95_duration_sec
  FROM requests_app_statustransition t
  JOIN requests_app_request r ON r.id = t.request_id
 CROSS JOIN LATERAL (SELECT extract(epoch FROM t.at - r.created_at)::float8 AS sec) d
 WHERE t.to_status IN ('completed', 'failed', 'aborted') AND t.at >= %(since)s
   AND (%(campaign)s = '' OR r.campaign = %(campaign)s)
 GROUP BY r.campaign ORDER BY total DESC, r.campaign LIMIT %(limit)s"""


def kind_of(column: str) -> str:
    """Return SQL for the kind of a failure: its message without numbers and names."""
    names = r"'(/[\w.#:-]+){2,}|\m\w*_\w+\M'"
    return rf"left(regexp_replace(regexp_replace({column}, {names}, '…', 'g'), '\d+', 'N', 'g'), 300)"


_FAILURES = f"""
SELECT {kind_of("t.reason")} AS pattern, t.to_status AS status, r.campaign, count(*) AS occurrences,
       count(DISTINCT t.request_id) AS requests, max(t.at) AS last_seen,
       (array_agg(r.request_name ORDER BY t.at DESC))[1] AS example
  FROM requests_app_statustransition t
  JOIN requests_app_request r ON r.id = t.request_id
 WHERE t.to_status IN ('held', 'partial', 'failed') AND t.at >= %(since)s
   AND (%(campaign)s = '' OR r.campaign = %(campaign)s)
 GROUP BY 1, 2, 3 ORDER BY occurrences DESC, pattern LIMIT %(limit)s"""  # noqa: S608 — ours
_THROUGHPUT = """
SELECT b.at AS bucket, count(t.id) FILTER (WHERE t.to_status = 'submitted') AS submitted,
       count(t.id) FILTER (WHERE t.to_status = 'completed') AS completed,
       count(t.id) FILTER (WHERE t.to_status = 'failed') AS failed,
       count(t.id) FILTER (WHERE t.to_status = 'aborted') AS aborted,
       count(t.id) FILTER (WHERE t.to_status = 'held') AS held,
       avg(extract(epoch FROM t.at - r.created_at)::float8) FILTER (WHERE t.to_status = 'completed')
         AS avg_duration_sec
  FROM generate_series(%(since)s::timestamptz, %(until)s::timestamptz - %(bucket)s, %(bucket)s) AS b(at)
  LEFT JOIN requests_app_statustransition t
    ON t.at >= b.at AND t.at < b.at + %(bucket)s
   AND t.to_status IN ('submitted', 'completed', 'failed', 'aborted', 'held')
  LEFT JOIN requests_app_request r ON r.id = t.request_id
 GROUP BY b.at ORDER BY b.at"""


@dataclass(frozen=True, slots=True)
class FailureKind:
    """One kind of failure. Its pattern is a message without numbers and names."""

    pattern: str
    status: str
    campaign: str
    occurrences: int
    requests: int
    last_seen: datetime
    example: Annotated[str, "The last affected request."]


@dataclass(frozen=True, slots=True)
class CampaignMetrics:
    """Outcomes of the requests of a campaign."""

    campaign: str
    total: int
    completed: int
    failed: int
    aborted: int
    success_rate: float
    avg_duration_sec: float | None
    p50_duration_sec: float | None
    p95_duration_sec: float | None
    common_failures: list[FailureKind]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Counts of one time bucket, which starts at `bucket`."""

    bucket: datetime
    submitted: int
    completed: int
    failed: int
    aborted: int
    held: int
    avg_duration_sec: float | None


def workflow_metrics(*, now: datetime, days: int, campaign: str = "") -> list[CampaignMetrics]:
    """Return the campaigns, the one with most requests first."""
    values = {"since": now - timedelta(days=days), "campaign": campaign, "limit": ROWS}
    failures = failure_metrics(now=now, days=days, campaign=campaign, limit=ROWS)
    return [
        CampaignMetrics(
            **row, common_failures=[one for one in failures if one.campaign == row["campaign"]][:5]
        )
        for row in _read(_ENDED, values)
    ]


def failure_metrics(*, now: datetime, days: int, campaign: str = "", limit: int) -> list[FailureKind]:
    """Return the kinds of failures, the most frequent first."""
    values = {"since": now - timedelta(days=days), "campaign": campaign, "limit": limit}
    return [FailureKind(**row) for row in _read(_FAILURES, values)]


def throughput_metrics(*, now: datetime, hours: int, bucket_minutes: int) -> list[Bucket]:
    """Return the time buckets, oldest first. The last one ends now."""
    bucket = timedelta(minutes=bucket_minutes)
    values = {"since": now - timedelta(hours=hours), "until": now, "bucket": bucket}
    return [Bucket(**row) for row in _read(_THROUGHPUT, values)]


def _read(sql: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
