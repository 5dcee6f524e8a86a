"""Forecast of admission times, from the estimated ends of running requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Annotated
from uuid import UUID

from requests_app import admission
from requests_app.models import Request
from requests_app.selectors.progress import Subject, paced_progress
from requests_app.selectors.requests import NextInQueue
from requests_app.states import TAKES_CAPACITY


@dataclass(frozen=True, slots=True)
class Turn:
    """Estimated admission of a queued request, from the pace of running requests.

    With 80 % confidence it is between earliest and latest.
    """

    position: int
    places_needed: Annotated[int, "Number of running requests that must end first."]
    estimated_from: Annotated[int, "Number of running requests with a known pace."]
    earliest: datetime
    likely: datetime
    latest: datetime


@dataclass(frozen=True, slots=True)
class Forecast:
    """Estimated ends of the running requests, each list sorted by time."""

    now: datetime
    paused: bool
    free: int
    earliest: list[datetime]
    likely: list[datetime]
    latest: list[datetime]

    def turn_at(self, position: int) -> Turn | None:
        """Return the estimated admission of the request at this position, or None if unknown."""
        needed = max(position - self.free, 0)
        if self.paused or needed > len(self.likely):
            return None
        times = (self.earliest, self.likely, self.latest)
        earliest, likely, latest = (one[needed - 1] if needed else self.now for one in times)
        return Turn(position, needed, len(self.likely), earliest, likely, latest)


def forecast_ends(*, now: datetime) -> Forecast:
    """Estimate the end of each running request from its pace."""
    config = admission.limits()
    running = Request.objects.filter(status__in=sorted(TAKES_CAPACITY))
    subjects = [Subject(*row) for row in running.values_list("id", "workflow_id", "status")]
    ends = [
        (pace.earliest, pace.estimated_completion, pace.latest)
        for _, pace in paced_progress(subjects, now=now).values()
    ]
    known = [(low, mid, high) for low, mid, high in ends if low and mid and high]
    earliest, likely, latest = (sorted(end[part] for end in known) for part in range(3))
    free = config.max_active_dags - len(subjects)
    return Forecast(now, config.paused, free, earliest, likely, latest)


@dataclass(frozen=True, slots=True)
class QueuedRow(NextInQueue):
    """One queued request."""

    position: Annotated[int | None, "Queue position, 1 being next; null if another gate blocks the request."]
    gate: Annotated[str, "The gate that blocked it at the last check."]
    wait_reason: str
    expected_start: Turn | None


def queued_rows(page: Sequence[Request], *, now: datetime) -> list[QueuedRow]:
    """Return the rows of a page of consecutive queued requests, in either order."""
    turns = _turns_of([request for request in page if admission.in_line(request)], now=now)
    rows = []
    for request in page:
        position, turn = turns.get(request.pk, (None, None))
        rows.append(
            QueuedRow(
                request_name=request.request_name,
                priority=request.priority,
                rank=request.rank,
                queued_since=request.status_since,
                position=position,
                gate=request.wait_gate,
                wait_reason=request.wait_reason,
                expected_start=turn,
            )
        )
    return rows


def _turns_of(standing: Sequence[Request], *, now: datetime) -> dict[UUID, tuple[int, Turn | None]]:
    """Return position and estimated admission of consecutive requests that no other gate blocks."""
    if not standing:
        return {}
    first, last = admission.ahead_of(standing[0]) + 1, admission.ahead_of(standing[-1]) + 1
    positions = count(first, 1 if first <= last else -1)
    ends = forecast_ends(now=now)
    return {request.pk: (one, ends.turn_at(one)) for request, one in zip(standing, positions, strict=False)}


def expected_turn(request: Request, *, now: datetime) -> Turn | None:
    """Return the estimated admission of the request; None if unknown or if another gate blocks it."""
    if not admission.in_line(request):
        return None
    return forecast_ends(now=now).turn_at(admission.ahead_of(request) + 1)
