"""The admission queue with expected starts, and requests whose estimated end moves away.

Both use the last progress samples of running requests, so that no group is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from requests_app import admission
from requests_app.selectors.forecast import Forecast, Turn
from requests_app.selectors.requests import AdmissionQueue, admission_queue
from requests_app.states import TAKES_CAPACITY

NEXT = 5
LATE = 5
LEAST_DELAY = timedelta(hours=1)
_ENDS = """
SELECT r.request_name, s.estimated_completion, s.earliest, s.latest, b.estimated_completion
  FROM requests_app_request r
  LEFT JOIN LATERAL (
    SELECT estimated_completion, earliest, latest FROM requests_app_progresssample
     WHERE request_id = r.id ORDER BY at DESC LIMIT 1) s ON true
  LEFT JOIN LATERAL (
    SELECT estimated_completion FROM requests_app_progresssample
     WHERE request_id = r.id AND at > %(since)s AND estimated_completion IS NOT NULL
     ORDER BY at LIMIT 1) b ON true
 WHERE r.status = ANY(%(running)s)"""


_Time = datetime | None
_End = tuple[str, _Time, _Time, _Time, _Time]  # name; likely, earliest, latest end; likely end a day ago


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queued request and when it is expected to start."""

    name: str
    priority: int
    since: datetime
    turn: Turn | None


@dataclass(frozen=True, slots=True)
class Late:
    """A running request whose estimated end has moved by `delay` within a day."""

    name: str
    estimated: datetime
    delay: timedelta

    @property
    def delay_hours(self) -> float:
        return self.delay / timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Queue:
    """Capacity, the next requests and those that are late."""

    capacity: AdmissionQueue
    next: list[Waiting]
    late: list[Late]


def queue(*, now: datetime) -> Queue:
    """Return the queue in a fixed number of queries."""
    capacity = admission_queue()
    ends = _ends(now)
    known = [(low, likely, high) for _name, likely, low, high, _before in ends if low and likely and high]
    earliest, middle, latest = (sorted(end[part] for end in known) for part in range(3))
    free = capacity.max_active_dags - capacity.active_dags
    forecast = Forecast(now, capacity.paused, free, earliest, middle, latest)
    line = admission.line().order_by("-rank", "created_at")
    waiting = [
        Waiting(row.request_name, row.priority, row.status_since, forecast.turn_at(number))
        for number, row in enumerate(line.only("request_name", "priority", "status_since")[:NEXT], start=1)
    ]
    late = [
        Late(name, likely, likely - before)
        for name, likely, _low, _high, before in ends
        if likely is not None and before is not None and likely - before > LEAST_DELAY
    ]
    late.sort(key=lambda one: -one.delay)
    return Queue(capacity, waiting, late[:LATE])


def _ends(now: datetime) -> list[_End]:
    with connection.cursor() as cursor:
        cursor.execute(_ENDS, {"running": sorted(TAKES_CAPACITY), "since": now - timedelta(days=1)})
        return list(cursor.fetchall())
