"""EventBased: a fixed number of events per job; files are cut, never joined, and ordered by run.

Also used to divide Monte Carlo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from dags_app.planning.parameters import Parameters, read_parameters, refuse
from dags_app.planning.selection import Selection
from dags_app.planning.splitters.base import Splitter, first_run, mask_of
from dags_app.planning.types import EventBudget, FileSpec, FileWindow, Generation, JobSpec
from dags_app.states import SplittingAlgo
from sandbox.lumis import Ranges

DEFAULT_EVENTS_PER_JOB = 100
LAST_EVENT_NUMBER = 2**32 - 1  # event numbers are 32-bit on the worker; they restart at 1
LAST_LUMI = 2**32 - 1  # lumis distinguish events of equal number, so they never restart


def split_event_based(
    places: Sequence[list[FileSpec]], parameters: Parameters, selection: Selection
) -> Iterator[JobSpec]:
    """Yield jobs of at most `events_per_job` events of one file; a file without events gets one job.

    `total_events` counts the events of the windows regardless of masks and takes the first files by name.
    """
    per_job = parameters.events_per_job or DEFAULT_EVENTS_PER_JOB
    left = parameters.total_events
    for files in places:
        files = sorted(files, key=attrgetter("lfn"))
        if left is None:
            files.sort(key=first_run)
        for file in files:
            if left is not None and left <= 0:
                return
            mask = mask_of(file, selection)
            if mask == ():
                continue
            if file.events == 0:
                yield JobSpec(files=(FileWindow(file=file),), sites=file.sites, events=0, mask=mask)
            for _, start, end in ((0, 0, file.events - 1),) if file.left is None else file.left:
                events = end - start + 1 if left is None else min(end - start + 1, left)
                yield from _windows(file, range(start, start + events), per_job, mask)
                if left is not None:
                    left -= events


def _windows(file: FileSpec, events: range, per_job: int, mask: Ranges | None) -> Iterator[JobSpec]:
    for first in events[::per_job]:
        last = min(first + per_job, events.stop) - 1
        window = FileWindow(file=file, first_event=first, last_event=last)
        yield JobSpec(files=(window,), sites=file.sites, events=window.events, mask=mask)


def split_generation(
    budget: EventBudget, params: Mapping[str, Any], sites: frozenset[str]
) -> Iterator[JobSpec]:
    """Return Monte Carlo jobs that use up the budget, numbered from its first event and lumi."""
    parameters = read_parameters(params)
    per_job = parameters.events_per_job or DEFAULT_EVENTS_PER_JOB
    per_lumi = parameters.events_per_lumi or per_job
    if per_job > LAST_EVENT_NUMBER:
        refuse("events_per_job", f"is {per_job}", f"Event numbers end at {LAST_EVENT_NUMBER}; give fewer")
    return _generated(budget, per_job, per_lumi, sites)


def _generated(budget: EventBudget, per_job: int, per_lumi: int, sites: frozenset[str]) -> Iterator[JobSpec]:
    position, lumi, left = budget.first_event, budget.first_lumi, budget.events
    while left > 0:
        epoch, event = divmod(position, LAST_EVENT_NUMBER + 1)
        # A job never crosses the end of the numbers, and the last job does not use the last number.
        if not event or (event + per_job - 1 > LAST_EVENT_NUMBER and event + left > LAST_EVENT_NUMBER):
            epoch, event = epoch + bool(event), 1
            position = epoch * (LAST_EVENT_NUMBER + 1) + 1
        count = min(per_job, left)
        last_lumi = lumi - 1 - (-count // per_lumi)
        if last_lumi > LAST_LUMI:
            refuse("events_per_lumi", f"is {per_lumi}", f"Lumi numbers end at {LAST_LUMI}; give more")
        yield JobSpec(
            files=(),
            sites=sites,
            events=count,
            generate=Generation(
                first_event=event,
                last_event=event + count - 1,
                first_lumi=lumi,
                last_lumi=last_lumi,
                events_per_lumi=per_lumi,
                position=position,
            ),
        )
        position, lumi, left = position + count, last_lumi + 1, left - count


SPLITTER = Splitter(
    SplittingAlgo.EVENT_BASED,
    split_event_based,
    size="events_per_job",
    total="total_events",
    cuts_events=True,
)
