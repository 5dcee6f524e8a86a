"""Lumis that are in several files: who reads them, so that every event is read once.

Normally each file's share of a lumi goes its own way. Corrected, all shares of a lumi go to the job that
has the first of them: later files give the lumi up, and that job reads them too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from dags_app.planning.lumis import Ranges, intersect, normalised
from dags_app.planning.splitters.lumi_files import LumiFile, Runs
from dags_app.planning.types import FileWindow, LumiRange


class _Claims:
    """The lumis of one run that have an owner: disjoint ranges in order."""

    def __init__(self, run: int) -> None:
        self.run = run
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        self.owners: list[LumiFile] = []

    def claim(self, first: int, last: int, claimant: LumiFile) -> Iterator[LumiRange]:
        """Give the claimant what is free, and tell the owners of the rest that it has that too."""
        at = bisect_left(self.lasts, first)
        while first <= last:
            if at == len(self.firsts) or self.firsts[at] > first:
                end = last if at == len(self.firsts) else min(last, self.firsts[at] - 1)
                yield (self.run, first, end)
                self.firsts.insert(at, first)
                self.lasts.insert(at, end)
                self.owners.insert(at, claimant)
            else:
                end, owner = min(last, self.lasts[at]), self.owners[at]
                owner.joined = owner.joined or []
                owner.joined.append(((self.run, first, end), claimant.window))
            first, at = end + 1, at + 1


def correct(files: Iterable[LumiFile]) -> Iterator[LumiFile]:
    """The files, each lumi left in the first that wants it; the others are noted there as joined."""
    claims: dict[int, _Claims] = {}
    for file in files:
        own: Runs = []
        for run, ranges in file.by_run():
            taken = claims.setdefault(run, _Claims(run))
            own.append((run, tuple(part for _, a, b in ranges for part in taken.claim(a, b, file))))
        file.runs = own
        yield file


def forget_beyond(owners: Iterable[LumiFile], stopped_in: LumiFile, end: LumiRange) -> None:
    """Let nobody read shares that lie behind the lumi, in the file, where an early stop came."""
    for owner in owners:
        owner.joined = [
            (shared, window)
            for shared, window in owner.joined or ()
            if window is not stopped_in.window or shared[:2] <= (end[0], end[2])
        ]


def windows_once(files: Sequence[LumiFile], parts: Sequence[Sequence[LumiRange]]) -> tuple[FileWindow, ...]:
    """The windows of a job that takes these parts of these files, and no lumi besides from any.

    The job's mask is the union of the parts; a file in which it would find more gets its own mask.
    """
    meant: dict[str, tuple[FileWindow, list[LumiRange]]] = {}
    for file, own in zip(files, parts, strict=True):
        meant.setdefault(file.window.file.lfn, (file.window, []))[1].extend(own)
    for file, own in zip(files, parts, strict=True):
        for shared, window in file.joined or ():
            if common := intersect((shared,), normalised(own)):
                meant.setdefault(window.file.lfn, (window, []))[1].extend(common)
    if len(meant) == 1:
        return (files[0].window,)
    mask = normalised([part for own in parts for part in own])
    return tuple([_window(window, normalised(own), mask) for window, own in meant.values()])


def _window(window: FileWindow, meant: Ranges, mask: Ranges) -> FileWindow:
    found = intersect(normalised(window.file.lumis), mask)
    return window if found == meant else FileWindow(window.file, mask=meant)
