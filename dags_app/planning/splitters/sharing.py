"""Lumis that are in several files: each event is read once.

Without correction each file's share of a lumi is independent. With correction, the job that has the first
share reads all shares of the lumi, and later files leave it out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from dags_app.planning.lumis import intersect, normalised
from dags_app.planning.splitters.lumi_files import LumiFiles
from dags_app.planning.types import FileSpec, FileWindow
from sandbox.lumis import LumiRange, Ranges


class Share(NamedTuple):
    """Lumis of a file that another file's job reads."""

    lumis: LumiRange
    file: FileSpec
    at: int  # place of the file in the order


Shares = dict[str, list[Share]]  # by the name of the file whose job reads them


class _Claims:
    """The lumis of one run that have an owner: disjoint, sorted ranges."""

    def __init__(self, run: int) -> None:
        self.run = run
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        self.owners: list[str] = []

    def claim(self, first: int, last: int, claimant: str) -> Iterator[tuple[LumiRange, str]]:
        """Yield every part of the range with its owner; free parts go to the claimant."""
        at = bisect_left(self.lasts, first)
        while first <= last:
            if at == len(self.firsts) or self.firsts[at] > first:
                end = last if at == len(self.firsts) else min(last, self.firsts[at] - 1)
                self.firsts.insert(at, first)
                self.lasts.insert(at, end)
                self.owners.insert(at, claimant)
            end = min(last, self.lasts[at])
            yield (self.run, first, end), self.owners[at]
            first, at = end + 1, at + 1


def correct(files: LumiFiles) -> tuple[LumiFiles, Shares]:
    """Return the files with each lumi left to the first that has it, and the shares of the others."""
    claims: dict[int, _Claims] = {}
    shares: Shares = {}
    kept: list[Ranges] = []
    for at, (file, wanted) in enumerate(zip(files.files, files.wanted, strict=True)):
        mine: list[LumiRange] = []
        for run, first, last in wanted:
            taken = claims.setdefault(run, _Claims(run))
            for part, owner in taken.claim(first, last, file.lfn):
                if owner == file.lfn:
                    mine.append(part)
                else:
                    shares.setdefault(owner, []).append(Share(part, file, at))
        kept.append(tuple(mine))
    return replace(files, wanted=kept), shares


def shares_until(shares: Shares, at: int, end: LumiRange) -> Shares:
    """Return the shares of files before this one, and of this one up to the lumi of an early stop."""
    stop = (at, end[0], end[2])
    return {
        owner: [share for share in given if (share.at, *share.lumis[:2]) <= stop]
        for owner, given in shares.items()
    }


def windows_once(
    windows: Sequence[FileWindow], parts: Sequence[Ranges], shares: Shares
) -> tuple[FileWindow, ...]:
    """Return the windows of a job that reads these parts of its files and their shares only.

    The job's mask is the union of the parts; a file with more lumis in the mask gets its own mask.
    """
    meant: dict[str, tuple[FileSpec, list[LumiRange]]] = {}
    for window, own in zip(windows, parts, strict=True):
        meant.setdefault(window.file.lfn, (window.file, []))[1].extend(own)
    for window, own in zip(windows, parts, strict=True):
        for share in shares.get(window.file.lfn, ()):
            if common := intersect((share.lumis,), normalised(own)):
                meant.setdefault(share.file.lfn, (share.file, []))[1].extend(common)
    if len(meant) == 1:
        return tuple(windows)
    mask = normalised([part for own in parts for part in own])
    return tuple([_window(file, normalised(own), mask) for file, own in meant.values()])


def _window(file: FileSpec, meant: Ranges, mask: Ranges) -> FileWindow:
    found = intersect(normalised(file.lumis), mask)
    return FileWindow(file, mask=None if found == meant else meant)
