"""EventBased: so many events per job; files are cut, never joined. Also how Monte Carlo is divided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dags_app.planning.types import EventBudget, FileSpec, FileWindow, Generation, JobSpec

DEFAULT_EVENTS_PER_JOB = 100
LAST_EVENT_NUMBER = 2**32 - 1  # event numbers are 32-bit on the worker; they start over at 1


def split_event_based(files: Sequence[FileSpec], params: Mapping[str, Any]) -> Iterator[JobSpec]:
    """Jobs of at most `events_per_job` events of one file; a file without events still gets a job."""
    per_job = int(params.get("events_per_job") or DEFAULT_EVENTS_PER_JOB)
    left = int(params["total_events"]) if params.get("total_events") else None
    for file in files:
        if file.events == 0:
            yield JobSpec(files=(FileWindow(file=file),), sites=file.sites, events=0, mask=file.mask)
        for first in range(0, file.events, per_job):
            if left is not None and left <= 0:
                return
            last = min(first + per_job, file.events) - 1
            if left is not None:
                last = min(last, first + left - 1)
                left -= last - first + 1
            window = FileWindow(file=file, first_event=first, last_event=last)
            yield JobSpec(files=(window,), sites=file.sites, events=window.events, mask=file.mask)


def split_generation(
    budget: EventBudget, params: Mapping[str, Any], sites: frozenset[str]
) -> Iterator[JobSpec]:
    """Monte Carlo jobs that use up the budget; every event and lumi number is used once."""
    per_job = int(params.get("events_per_job") or DEFAULT_EVENTS_PER_JOB)
    per_lumi = int(params.get("events_per_lumi") or per_job)
    event, lumi, left = budget.first_event, budget.first_lumi, budget.events
    while left > 0:
        count = min(per_job, left)
        if event + count - 1 > LAST_EVENT_NUMBER:
            event = 1  # a job never straddles the end of the number space
        lumis = -(-count // per_lumi)
        yield JobSpec(
            files=(),
            sites=sites,
            events=count,
            generate=Generation(
                first_event=event,
                last_event=event + count - 1,
                first_lumi=lumi,
                last_lumi=lumi + lumis - 1,
                events_per_lumi=per_lumi,
            ),
        )
        event, lumi, left = event + count, lumi + lumis, left - count
