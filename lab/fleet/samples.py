"""Progress samples of one request of the fleet, from the ends of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dags_app.models import MergeGroup, Workflow
from lab.fleet.stories import Story
from requests_app.models import ProgressSample, Request
from requests_app.states import RequestStatus

MAX_SAMPLES = 60


def make_samples(
    request: Request, workflow: Workflow, story: Story, groups: Sequence[MergeGroup], now: datetime
) -> list[ProgressSample]:
    """Return a sample of the start and of about sixty groups; none of a request that has not run."""
    began = story.since(RequestStatus.ACTIVE)
    if began is None:
        return []
    total = workflow.total_events or workflow.input_events
    ended = sorted((one for one in groups if one.finished_at), key=lambda one: one.finished_at or now)
    step = max(1, len(ended) // MAX_SAMPLES)
    done, samples = 0, {began: _sample(request, began, done=0, total=total, groups=(0, len(groups)))}
    for number, group in enumerate(ended, start=1):
        done += group.events_read
        at = group.finished_at
        if at is not None and at > began and (number % step == 0 or number == len(ended)):
            counts = (number, len(groups))
            samples[at] = _sample(request, at, done=min(done, total), total=total, groups=counts)
            _estimate(samples[at], began)
    return list(samples.values())


def _estimate(sample: ProgressSample, began: datetime) -> None:
    """Set the expected end from the pace so far."""
    if 0 < sample.events_done < sample.events_total:
        left = (sample.at - began) * (sample.events_total / sample.events_done - 1)
        sample.earliest, sample.latest = sample.at + 0.8 * left, sample.at + 1.3 * left
        sample.estimated_completion = sample.at + left


def _sample(
    request: Request, at: datetime, *, done: int, total: int, groups: tuple[int, int]
) -> ProgressSample:
    return ProgressSample(
        request=request, at=at, status=RequestStatus.ACTIVE, events_done=done, events_total=total,
        groups_done=groups[0], groups_total=groups[1],
    )  # fmt: skip
