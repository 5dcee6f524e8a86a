"""The fleet by status: how many requests, and how many there were in the last 24 hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.urls import reverse

from requests_app.selectors.requests import by_status, open_requests
from requests_app.states import STATUSES, TERMINAL, RequestStatus

HOURS = 24
# Moves between statuses by hour. Every status is named, so that the index on status and time is used.
_MOVES = """
SELECT floor(extract(epoch FROM %(now)s - at) / 3600)::int AS hours_ago, from_status, to_status, count(*)
  FROM requests_app_statustransition
 WHERE to_status = ANY(%(statuses)s) AND at > %(since)s AND at <= %(now)s
 GROUP BY 1, 2, 3"""


@dataclass(frozen=True, slots=True)
class Line:
    """One status: requests now (of a final status: in the last 24 hours) and at the end of each hour."""

    status: str
    tone: str
    why: str
    count: int
    unit: str
    url: str
    points: list[int]

    @property
    def name(self) -> str:
        return self.status.replace("_", " ")

    @property
    def change(self) -> int:
        """The difference to 24 hours ago."""
        return self.points[-1] - self.points[0]


def status_lines(*, now: datetime) -> list[Line]:
    """Return all statuses in the order of a request's life. Reads no ended request."""
    counts = by_status(open_requests())
    entered = [dict[str, int]() for _ in range(HOURS)]  # by hours ago
    left = [dict[str, int]() for _ in range(HOURS)]
    for hours_ago, before, after, count in _moves(now):
        hour = min(hours_ago, HOURS - 1)
        entered[hour][after] = entered[hour].get(after, 0) + count
        left[hour][before] = left[hour].get(before, 0) + count
    listed = reverse("admin:requests_app_request_changelist")
    lines = []
    for status in RequestStatus:
        ended = status in TERMINAL
        flows = [entered[hour].get(status, 0) for hour in range(HOURS)]
        gone = [left[hour].get(status, 0) for hour in range(HOURS)]
        points = flows[::-1] if ended else _levels(counts.get(status, 0), flows, gone)
        lines.append(
            Line(
                status=status.value,
                tone=STATUSES[status].colour or "neutral",
                why=STATUSES[status].why,
                count=sum(flows) if ended else counts.get(status, 0),
                unit="in 24 h" if ended else "",
                url=f"{listed}?status__exact={status}",
                points=points,
            )
        )
    return lines


def _levels(now: int, entered: list[int], left: list[int]) -> list[int]:
    """Return the number at the end of each hour, oldest first, going back from the present one."""
    levels = [now]
    for came, went in zip(entered, left, strict=True):
        levels.append(max(levels[-1] - came + went, 0))
    return levels[::-1]


def _moves(now: datetime) -> list[tuple[int, str, str, int]]:
    statuses = [str(one) for one in RequestStatus]
    values: dict[str, Any] = {"now": now, "since": now - timedelta(hours=HOURS), "statuses": statuses}
    with connection.cursor() as cursor:
        cursor.execute(_MOVES, values)
        return list(cursor.fetchall())
