"""When queued requests may start: judged from when the running ones will have ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from requests_app import admission
from requests_app.models import Request
from requests_app.progress import Subject, paces_of_subjects
from requests_app.states import TAKES_CAPACITY


@dataclass(frozen=True, slots=True)
class Turn:
    """When a queued request is likely to be admitted; four times of five between earliest and latest."""

    position: int
    places_needed: int  # how many running requests have to end first
    estimated_from: int  # how many running requests have a known pace
    earliest: datetime
    likely: datetime
    latest: datetime


@dataclass(frozen=True, slots=True)
class Forecast:
    """When running requests will have ended, each list in order of time; one for all queued requests."""

    now: datetime
    paused: bool
    free: int
    earliest: list[datetime]
    likely: list[datetime]
    latest: list[datetime]

    def turn_at(self, position: int) -> Turn | None:
        """When the request at this position will be admitted; None if nobody can say."""
        needed = max(position - self.free, 0)
        if self.paused or needed > len(self.likely):
            return None
        times = (self.earliest, self.likely, self.latest)
        earliest, likely, latest = (one[needed - 1] if needed else self.now for one in times)
        return Turn(position, needed, len(self.likely), earliest, likely, latest)


def forecast_ends(*, now: datetime) -> Forecast:
    """Estimate when each request that takes a place will have ended, from its pace."""
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
    """Where a queued request stands and when it may start; nothing of both if another gate stops it."""

    position: int | None = None
    turn: Turn | None = None


def places_of(page: Sequence[Request], *, now: datetime) -> list[Place]:
    """The places of queued requests that follow one another in the queue, from either end."""
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
    """When the request will be admitted; None if nobody can say or if another gate stops it."""
    if not admission.in_line(request):
        return None
    return forecast_ends(now=now).turn_at(admission.ahead_of(request) + 1)
