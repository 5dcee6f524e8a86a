"""Forecast of admission times, from the estimated ends of running requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from requests_app import admission
from requests_app.models import Request
from requests_app.selectors.progress import Subject, paces_of_subjects
from requests_app.states import TAKES_CAPACITY


@dataclass(frozen=True, slots=True)
class Turn:
    """Estimated admission time of a queued request; 80 % confidence between earliest and latest."""

    position: int
    places_needed: int  # number of running requests that must end first
    estimated_from: int  # number of running requests with a known pace
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
        for pace in paces_of_subjects(subjects, now=now).values()
    ]
    known = [(low, mid, high) for low, mid, high in ends if low and mid and high]
    earliest, likely, latest = (sorted(end[part] for end in known) for part in range(3))
    free = config.max_active_dags - len(subjects)
    return Forecast(now, config.paused, free, earliest, likely, latest)


@dataclass(frozen=True, slots=True)
class Place:
    """Queue position and estimated start of a queued request; both None if another gate blocks it."""

    position: int | None = None
    turn: Turn | None = None


def places_of(page: Sequence[Request], *, now: datetime) -> list[Place]:
    """Return the places of a page of consecutive queued requests, in either order."""
    standing = [request for request in page if admission.in_line(request)]
    if not standing:
        return [Place() for _ in page]
    first, last = admission.ahead_of(standing[0]) + 1, admission.ahead_of(standing[-1]) + 1
    step = 1 if first <= last else -1
    positions = {request.pk: first + step * number for number, request in enumerate(standing)}
    ends = forecast_ends(now=now)
    found = (positions.get(request.pk) for request in page)
    return [Place(one, ends.turn_at(one)) if one is not None else Place() for one in found]


def expected_turn(request: Request, *, now: datetime) -> Turn | None:
    """Return the estimated admission of the request; None if unknown or if another gate blocks it."""
    if not admission.in_line(request):
        return None
    return forecast_ends(now=now).turn_at(admission.ahead_of(request) + 1)
