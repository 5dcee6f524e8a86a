"""History of each request of the fleet up to now: statuses with their times, size and progress. Pure.

Everything follows from the seed and the present time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from lab.fleet.world import CAMPAIGNS, FAILURES, GROUPS, HOLDS, OPERATORS, PEOPLE, Campaign, Failure
from requests_app.states import RequestStatus

S = RequestStatus
# Percentage of requests in each status; at least one of each.
SHARES = {
    S.ACTIVE: 32, S.COMPLETED: 26, S.QUEUED: 9, S.HELD: 8, S.PILOT_RUNNING: 4, S.STOPPING: 2, S.PLANNING: 2,
    S.SUBMITTED: 2, S.RESUBMITTING: 1, S.PARTIAL: 1, S.NEW: 3, S.FAILED: 4, S.ABORTED: 6,
}  # fmt: skip
_LIFE = (S.SUBMITTED, S.QUEUED, S.PILOT_RUNNING, S.PLANNING, S.ACTIVE)
_REASONS = {
    S.NEW: "stored as a draft",
    S.SUBMITTED: "submitted",
    S.QUEUED: "the input is resolved",
    S.PILOT_RUNNING: "admitted: a pilot measures first",
    S.PLANNING: "the pilot has measured",
    S.ACTIVE: "the DAG is submitted",
    S.PARTIAL: "the DAG ended with failures",
    S.RESUBMITTING: "a rescue repeats what failed",
    S.STOPPING: "the sites of the input are moved",
    S.FAILED: "wrong global tag, agreed with the requestor",
    S.ABORTED: "no longer needed",
    S.COMPLETED: "all blocks are announced",
}
_BY_PEOPLE = (S.STOPPING, S.FAILED, S.ABORTED)
BIG = 500  # groups of the largest request, with 20 jobs each


@dataclass(frozen=True, slots=True)
class Step:
    """A status that the request reached, with time, actor and reason."""

    status: RequestStatus
    at: datetime
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class Story:
    """Facts of a request before any row is written."""

    number: int
    name: str
    campaign: Campaign
    primary: str
    requestor: str
    group: str
    priority: int
    urgent: bool
    steps: tuple[Step, ...]
    groups: int
    jobs_per_group: int
    events_per_job: int
    memory_mb: int
    progress: float  # of the last production round
    failure: Failure | None

    @property
    def status(self) -> RequestStatus:
        return self.steps[-1].status

    def since(self, status: RequestStatus) -> datetime | None:
        """Return when the request first reached the status; None if it never did."""
        return next((step.at for step in self.steps if step.status is status), None)


def tell_stories(*, requests: int, seed: int, now: datetime) -> Iterator[Story]:
    """Yield the requests of the fleet, the oldest status first."""
    random = Random(seed)  # noqa: S311 — reproducible, not secret
    for number, status in enumerate(spread_statuses(requests)):
        yield _tell(number, status, random, now)


def spread_statuses(requests: int) -> list[RequestStatus]:
    """Return as many statuses as there are requests, in the proportions of SHARES, at least one of each."""
    counts = {status: max(1, requests * share // 100) for status, share in SHARES.items()}
    counts[S.ACTIVE] += max(0, requests - sum(counts.values()))
    return [status for status, count in counts.items() for _ in range(count)][: max(requests, len(counts))]


def _tell(number: int, status: RequestStatus, random: Random, now: datetime) -> Story:
    campaign = CAMPAIGNS[random.randrange(len(CAMPAIGNS))]
    primary = random.choice(campaign.primaries)
    requestor = random.choice(PEOPLE)
    failure = _failure(status, random)
    big = number == 0
    return Story(
        number=number,
        name=f"{requestor}_{campaign.era}_{primary}_{number:04d}",
        campaign=campaign,
        primary=primary,
        requestor=requestor,
        group=random.choice(GROUPS),
        priority=random.randrange(10, 90) * 1000 if status is S.QUEUED else random.randrange(50, 400) * 1000,
        urgent=random.random() < 0.04,
        steps=tuple(_steps(status, failure, random, now)),
        groups=BIG if big else min(90, 2 + int(random.lognormvariate(2.6, 0.8))),
        jobs_per_group=20 if big else random.randrange(6, 40),
        events_per_job=random.choice((500, 2000, 5000)),
        memory_mb=random.choice((2000, 3000, 4000)),
        progress=0.62 if big else random.uniform(0.04, 0.97),
        failure=failure,
    )


def _failure(status: RequestStatus, random: Random) -> Failure | None:
    """Return the main failure of the request; None if it has none.

    Failures of sites are more likely than others.
    """
    troubled = {S.HELD: 0.8, S.PARTIAL: 1.0, S.RESUBMITTING: 1.0, S.FAILED: 1.0, S.ACTIVE: 0.3}
    if random.random() >= troubled.get(status, 0.0):
        return None
    return random.choices(FAILURES, weights=(6, 4, 3, 1, 2, 1, 1))[0]


def _steps(status: RequestStatus, failure: Failure | None, random: Random, now: datetime) -> Iterator[Step]:
    """Yield the statuses in order; the time between them is that of an ordinary request."""
    path = _path(status, failure, random)
    spans = [_span(one, random) for one in path]
    if status in (S.COMPLETED, S.FAILED, S.ABORTED):
        spans[-1] = timedelta(hours=random.uniform(0.05, 40))
    began = now - sum(spans, timedelta())
    for one, span in zip(path, spans, strict=True):
        by_person = one in _BY_PEOPLE or (one is S.HELD and failure is None and random.random() < 0.3)
        actor = f"user:{random.choice(OPERATORS)}" if by_person else "system:lifecycle"
        reason = _hold_reason(failure, random) if one is S.HELD else _REASONS[one]
        yield Step(one, began, actor, reason)
        began += span


def _path(status: RequestStatus, failure: Failure | None, random: Random) -> Sequence[RequestStatus]:
    if status is S.NEW:
        return (S.NEW,)
    if status in _LIFE:
        return _LIFE[: _LIFE.index(status) + 1]
    again = (S.PARTIAL, S.RESUBMITTING, S.QUEUED, S.PLANNING, S.ACTIVE) if random.random() < 0.2 else ()
    ends: dict[RequestStatus, Sequence[RequestStatus]] = {
        S.RESUBMITTING: (S.PARTIAL, S.RESUBMITTING),
        S.FAILED: (S.HELD, S.FAILED),
    }
    ends[S.HELD] = (S.PARTIAL, S.HELD) if failure else (S.HELD,)
    return (*_LIFE, *again, *ends.get(status, (status,)))


def _span(status: RequestStatus, random: Random) -> timedelta:
    """Return how long the request is, or was, in the status."""
    hours = {
        S.NEW: 30, S.SUBMITTED: 0.1, S.QUEUED: 5, S.PILOT_RUNNING: 1.5, S.PLANNING: 0.2, S.ACTIVE: 26,
        S.PARTIAL: 0.1, S.RESUBMITTING: 0.05, S.STOPPING: 0.3, S.HELD: 9,
    }  # fmt: skip
    return timedelta(hours=hours.get(status, 1.0) * random.uniform(0.15, 1.6))


def _hold_reason(failure: Failure | None, random: Random) -> str:
    if failure is None:
        return random.choice(HOLDS[1:]).format(site="T2_DE_DESY")
    return HOLDS[0].format(percent=random.randrange(21, 88), message=failure.message)
