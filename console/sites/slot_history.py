"""Cores of the sites over time, from their samples: lines of the last day, charts of a day and of a month."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

DAY, MONTH = timedelta(hours=24), timedelta(days=30)
_HISTORY = """
SELECT site_id, floor(extract(epoch FROM at - %(since)s) / %(step_sec)s)::int,
       round(avg(total))::int, round(avg(running))::int, round(avg(pending))::int
  FROM sites_app_slotsample WHERE site_id = ANY(%(names)s) AND at >= %(since)s AND at <= %(now)s
 GROUP BY 1, 2"""


@dataclass(frozen=True, slots=True)
class Cores:
    """Cores of a site in an interval, on average."""

    total: int
    running: int
    pending: int


def slot_history(
    names: Collection[str], *, now: datetime, length: timedelta, step: timedelta
) -> dict[str, list[Cores | None]]:
    """Return the intervals of each site, oldest first; None where nothing was measured."""
    count = length // step
    since = now - length
    step_sec = step.total_seconds()
    values: dict[str, Any] = {"names": list(names), "since": since, "now": now, "step_sec": step_sec}
    found: dict[str, list[Cores | None]] = {name: [None] * count for name in names}
    with connection.cursor() as cursor:
        cursor.execute(_HISTORY, values)
        for name, interval, *cores in cursor.fetchall():
            found[name][min(interval, count - 1)] = Cores(*cores)
    return found


def running_lines(names: Collection[str], *, now: datetime) -> dict[str, list[int]]:
    """Return the running cores of each site by hour of the last day; sites without samples are left out."""
    history = slot_history(names, now=now, length=DAY, step=timedelta(hours=1))
    return {
        name: [cores.running if cores else 0 for cores in hours]
        for name, hours in history.items()
        if any(hours)
    }


def day_chart(name: str, *, now: datetime) -> dict[str, Any] | None:
    """Return the cores of the last day as charts.js draws them; None without a sample."""
    return _chart(name, now=now, length=DAY, step=timedelta(minutes=10), label="%H:%M")


def month_chart(name: str, *, now: datetime) -> dict[str, Any] | None:
    """Return the cores of the last thirty days as charts.js draws them; None without a sample."""
    return _chart(name, now=now, length=MONTH, step=timedelta(hours=2), label="%d %b")


def _chart(
    name: str, *, now: datetime, length: timedelta, step: timedelta, label: str
) -> dict[str, Any] | None:
    points = slot_history([name], now=now, length=length, step=step)[name]
    if not any(points):
        return None
    begin = now - length
    series = [
        {"label": text, "tone": tone, "data": [getattr(one, part) if one else None for one in points]}
        for text, tone, part in (
            ("running", "primary", "running"), ("in the pool", "neutral", "total"),
            ("wanted by waiting jobs", "info", "pending"),
        )
    ]  # fmt: skip
    labels = [f"{begin + number * step:{label}}" for number in range(len(points))]
    return {"kind": "line", "stacked": False, "unit": "cores", "labels": labels, "series": series}
