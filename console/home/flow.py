"""Throughput and failures of the last 24 hours, by hour, as charts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

HOURS = 24
CATEGORIES = 4  # of failures; the rest is one series
TONES = ("danger", "warning", "primary", "info", "neutral")
_GROUPS = """
SELECT b, sum(greatest(events_read, CASE status WHEN 'done' THEN input_events ELSE 0 END)), count(*)
  FROM dags_app_mergegroup, LATERAL (SELECT date_bin('1 hour', finished_at, %(since)s) AS b) h
 WHERE finished_at >= %(since)s AND status IN ('done', 'collected') GROUP BY 1"""
_FILES = """
SELECT date_bin('1 hour', created_at, %(since)s), count(*)
  FROM outputs_app_outputfile WHERE created_at >= %(since)s GROUP BY 1"""
_FAILED = """
SELECT date_bin('1 hour', created_at, %(since)s), category, sum(jobs)
  FROM dags_app_failurecluster WHERE created_at >= %(since)s GROUP BY 1, 2"""


def charts(*, now: datetime) -> dict[str, Any]:
    """Return the charts and their sums, in three queries."""
    since = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    hours = [since + timedelta(hours=number) for number in range(HOURS)]
    labels = [f"{hour:%H:%M}" for hour in hours]
    work = {hour: (events, groups) for hour, events, groups in _read(_GROUPS, since)}
    files = dict(_read(_FILES, since))
    events = [int(work.get(hour, (0, 0))[0]) for hour in hours]
    groups = [work.get(hour, (0, 0))[1] for hour in hours]
    written = [files.get(hour, 0) for hour in hours]
    failed = _failures(_read(_FAILED, since), hours)
    return {
        "events": _chart(labels, "events", [("Events", "primary", events)]),
        "groups": _chart(labels, "per hour", [("Groups", "success", groups), ("Files", "info", written)]),
        "failures": _chart(
            labels,
            "jobs",
            [(name, tone, jobs) for (name, jobs), tone in zip(failed.items(), TONES, strict=False)],
            stacked=True,
        ),
        "sums": {
            "events": sum(events),
            "groups": sum(groups),
            "files": sum(written),
            "failed": sum(map(sum, failed.values())),
        },
    }


def _failures(rows: list[tuple[Any, ...]], hours: list[datetime]) -> Mapping[str, list[int]]:
    """Return the failed jobs by category and hour, the most frequent category first."""
    totals: dict[str, int] = {}
    for _hour, category, jobs in rows:
        totals[category] = totals.get(category, 0) + int(jobs)
    ranked = sorted(totals, key=lambda name: -totals[name])
    names = {name: name.replace("_", " ") if name in ranked[:CATEGORIES] else "other" for name in ranked}
    place = {hour: number for number, hour in enumerate(hours)}
    found: dict[str, list[int]] = {names[name]: [0] * len(hours) for name in ranked}
    for hour, category, jobs in rows:
        found[names[category]][place[hour]] += int(jobs)
    return found


def _chart(
    labels: list[str],
    unit: str,
    series: list[tuple[str, str, list[int]]],
    *,
    stacked: bool = False,
) -> dict[str, Any]:
    """Return the data that charts.js draws."""
    drawn = [{"label": label, "tone": tone, "data": data} for label, tone, data in series]
    return {"kind": "bar", "stacked": stacked, "unit": unit, "labels": labels, "series": drawn}


def _read(sql: str, since: datetime) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, {"since": since})
        return list(cursor.fetchall())
