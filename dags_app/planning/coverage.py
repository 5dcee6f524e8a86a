"""The part of each file that a round reads, and the state of files of which only some groups were collected.

Ranges are of lumis; where files are cut by events they are of events, written as run 0. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dags_app.planning.lumis import intersect, normalised, subtract
from dags_app.planning.selection import Selection
from dags_app.planning.splitters import SPLITTERS
from dags_app.planning.types import FileSpec, FileWindow, JobSpec, Plan
from dags_app.states import FileState, SplittingAlgo
from sandbox.lumis import LumiRange, Ranges

Span = tuple[str, int, int]  # a file, and the first and last group that read it
Parts = dict[int, dict[str, Ranges]]  # by group and file: what the group reads


@dataclass(frozen=True, slots=True)
class Reading:
    """The files of a plan. `parts` has only files that several groups read, or that are read in part."""

    spans: list[Span]
    parts: Parts
    unfinished: frozenset[str]  # files of which the round reads only a part of the rest


def cuts_by_events(algo: str) -> bool:
    """Return whether the algorithm cuts files at events, regardless of lumis."""
    return SPLITTERS[SplittingAlgo(algo)].cuts_events


def read_plan(plan: Plan, *, by_events: bool) -> Reading:
    """Return the groups that read each file, and the parts they read where there are several."""
    span: dict[str, tuple[int, int]] = {}
    for group in plan.groups:
        for job in group.jobs:
            for window in job.files:
                first, _ = span.get(window.file.lfn, (group.index, 0))
                span[window.file.lfn] = (first, group.index)
    spans = [(lfn, first, last) for lfn, (first, last) in span.items()]
    cut = frozenset(lfn for lfn, first, last in spans if first < last)
    parts = _parts(plan, frozenset(span) if plan.truncated else cut, by_events=by_events)
    unfinished = _unfinished(plan, parts, by_events=by_events) if plan.truncated else frozenset[str]()
    kept = {
        index: {lfn: part for lfn, part in own.items() if lfn in cut or lfn in unfinished}
        for index, own in parts.items()
    }
    return Reading(spans, kept, unfinished)


def _parts(plan: Plan, files: frozenset[str], *, by_events: bool) -> Parts:
    parts: Parts = {}
    for group in plan.groups if files else ():
        found: dict[str, list[LumiRange]] = {}
        for job in group.jobs:
            for window in job.files:
                if window.file.lfn in files:
                    part = part_read(window, job, by_events=by_events)
                    found.setdefault(window.file.lfn, []).extend(part)
        parts[group.index] = {lfn: normalised(ranges) for lfn, ranges in found.items()}
    return parts


def _unfinished(plan: Plan, parts: Parts, *, by_events: bool) -> frozenset[str]:
    files = {window.file.lfn: window.file for g in plan.groups for j in g.jobs for window in j.files}
    read: dict[str, list[LumiRange]] = {lfn: [] for lfn in files}
    for own in parts.values():
        for lfn, part in own.items():
            read[lfn].extend(part)
    return frozenset(
        lfn
        for lfn, file in files.items()
        if subtract(left_of(file, by_events=by_events), normalised(read[lfn]))
    )


def part_read(window: FileWindow, job: JobSpec, *, by_events: bool) -> Ranges:
    """Return what the job reads of the window's file."""
    if by_events:
        known = window.first_event is not None and window.last_event is not None
        return ((0, window.first_event or 0, window.last_event or 0),) if known else ()
    own = normalised(window.file.lumis)
    mask = job.mask if window.mask is None else window.mask
    return own if mask is None else intersect(own, normalised(mask))


def left_of(file: FileSpec, *, by_events: bool) -> Ranges:
    """Return all that a plan may still read of the file."""
    if by_events:
        return every_event(file.events) if file.left is None else file.left
    return normalised(file.lumis if file.mask is None else file.mask)


def narrowed(file: FileSpec, left: Ranges, *, by_events: bool) -> FileSpec:
    """Return the file with only this left to read."""
    return replace(file, left=left) if by_events else replace(file, mask=left)


def every_event(events: int) -> Ranges:
    """Return the events of a whole file as a range."""
    return ((0, 0, events - 1),) if events else ()


@dataclass(frozen=True, slots=True)
class Account:
    """Ranges of a file in the ledger: selected by the request, wanted now, and done."""

    asked: Ranges
    wanted: Ranges  # narrower where the request stops early
    done: Ranges

    @property
    def left(self) -> Ranges:
        """The ranges still to be read."""
        return subtract(self.wanted, self.done) if self.done else self.wanted


def account_of(
    *, lumis: Ranges, events: int, wanted: Ranges | None, done: Ranges, selection: Selection, by_events: bool
) -> Account:
    """Build the account of a file."""
    asked = every_event(events) if by_events else selection.wanted(lumis)
    return Account(asked, asked if wanted is None else wanted, done)


def settle_file(left: Ranges, parts: Sequence[tuple[Ranges, bool]]) -> tuple[FileState, Ranges]:
    """Return the file's state after its round and what was read; each part has whether it was collected.

    A file whose parts were all collected but which is not finished counts as fresh, not as attempted.
    """
    covered = normalised(list(_collected(parts)))
    if not subtract(left, covered):
        return FileState.PROCESSED, covered
    tried = not all(collected for _, collected in parts)
    return FileState.ATTEMPTED if tried else FileState.FRESH, covered


def _collected(parts: Iterable[tuple[Ranges, bool]]) -> Iterable[LumiRange]:
    return (one for part, collected in parts if collected for one in part)
