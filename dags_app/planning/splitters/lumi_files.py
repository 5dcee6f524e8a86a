"""Files in the order of their lumis, with the selected part of each, for the lumi splitters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, repeat
from operator import itemgetter

from dags_app.planning.lumis import normalised, order_key, span
from dags_app.planning.selection import Selection
from dags_app.planning.splitters.base import wanted_of
from dags_app.planning.types import FileSpec
from sandbox.lumis import Ranges, count


@dataclass(frozen=True, slots=True)
class LumiFiles:
    """The files of one place that have lumis, ordered by the lumis of their lowest run, as columns."""

    files: list[FileSpec]
    own: list[Ranges]  # the lumis of each file
    lumis: list[int]  # and how many they are
    wanted: Iterable[Ranges]  # computed lazily, once
    tangled: bool  # a lumi may be in two of the files


def read_lumi_files(files: list[FileSpec], selection: Selection) -> LumiFiles:
    """Sort the files by lumis, equal ones by name, unless they are in order already."""
    own = [file.lumis for file in files]
    lumis = [span(ranges) for ranges in own]
    if min(lumis) < 1:
        own = [normalised(ranges) for ranges in own]
        files, own = [file for file, ranges in zip(files, own, strict=True) if ranges], [*filter(None, own)]
        lumis = [count(ranges) for ranges in own]
    tangled = _are_tangled(own)
    if tangled:
        starts = [(ranges[0][0] << 64) + ranges[0][1] for ranges in own]
        order = sorted(range(len(files)), key=starts.__getitem__)
        tangled = _are_tangled(own[at] for at in order)
        if tangled:
            order.sort(key=lambda at: (order_key(own[at]), files[at].lfn))
        files, own = [files[at] for at in order], [own[at] for at in order]
        lumis = [lumis[at] for at in order]
    if any(file.mask is not None for file in files):
        wanted = map(wanted_of, files, own, repeat(selection))
    else:
        wanted = map(selection.wanted, own)
    return LumiFiles(files, own, lumis, wanted, tangled)


def _are_tangled(files: Iterable[Ranges]) -> bool:
    """Return whether a lumi may be in two files: a file begins before the previous one has ended."""
    in_run = reached = -1
    for ranges in files:
        run, first, _ = ranges[0]
        if run < in_run or (run == in_run and first <= reached):
            return True
        in_run, _, reached = ranges[-1]
    return False


def by_run(own: Ranges, wanted: Ranges, selection: Selection) -> list[tuple[int, Ranges]]:
    """Return the selected part of each allowed run of a file, including empty ones."""
    found = {run: tuple(ranges) for run, ranges in groupby(wanted, key=itemgetter(0))}
    runs = dict.fromkeys(run for run, _, _ in own)
    return [(run, found.get(run, ())) for run in runs if run in found or selection.allows_run(run)]
