"""Files as the lumi splitters see them: in the order of their lumis, with what is wanted of each run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from dags_app.planning.lumis import Ranges, count, measured, order_key
from dags_app.planning.selection import Selection
from dags_app.planning.splitters.wanted import wanted_of
from dags_app.planning.types import FileSpec, LumiRange

Runs = list[tuple[int, Ranges]]


@dataclass(slots=True)
class LumiFile:
    """A file with lumis. A run that is allowed stands in `runs` even if none of its lumis is wanted."""

    file: FileSpec
    lumis: int  # in the file
    events_per_lumi: int  # on average, to the nearest whole number
    runs: Runs
    wanted: int  # lumis in `runs`
    joined: list[tuple[LumiRange, FileSpec]] | None = None  # lumis of it that are in other files too


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one place that have lumis, by the lumis of their lowest run; in columns, to be light."""

    files: list[FileSpec]
    ranges: list[Ranges]
    lumis: list[int]
    tangled: bool  # some lumi may be in two of the files


def in_order(files: Iterable[FileSpec]) -> Place:
    """The files sorted, those of equal lumis by name. Files that come in order are not sorted again."""
    kept: list[FileSpec] = []
    ranges: list[Ranges] = []
    lumis: list[int] = []
    for file in files:
        own, number = measured(file.lumis)
        if number:
            kept.append(file)
            ranges.append(own)
            lumis.append(number)
    if not _are_tangled(ranges):
        return Place(kept, ranges, lumis, tangled=False)
    starts = [(own[0][0] << 64) + own[0][1] for own in ranges]
    order = sorted(range(len(kept)), key=starts.__getitem__)
    tangled = _are_tangled(ranges[at] for at in order)
    if tangled:
        order.sort(key=lambda at: (order_key(ranges[at]), kept[at].lfn))
    return Place(
        [kept[at] for at in order], [ranges[at] for at in order], [lumis[at] for at in order], tangled
    )


def _are_tangled(files: Iterable[Ranges]) -> bool:
    """No lumi is in two files, certainly, if each begins after the one before has ended."""
    in_run = reached = -1
    for ranges in files:
        run, first, _ = ranges[0]
        if run < in_run or (run == in_run and first <= reached):
            return True
        in_run, _, reached = ranges[-1]
    return False


def read_lumi_files(place: Place, selection: Selection) -> Iterator[LumiFile]:
    """The files one by one, with what the selection leaves of them."""
    for file, ranges, lumis in zip(place.files, place.ranges, place.lumis, strict=True):
        wanted = wanted_of(file, ranges, selection)
        run = ranges[0][0]
        if run != ranges[-1][0]:
            runs = _runs(ranges, wanted, selection)
        elif wanted or selection.allows_run(run):
            runs = [(run, wanted)]
        else:
            runs = []
        left = lumis if wanted is ranges else count(wanted)
        yield LumiFile(file, lumis, round(file.events / lumis), runs, left)


def _runs(ranges: Ranges, wanted: Ranges, selection: Selection) -> Runs:
    found = {run: tuple(lumis) for run, lumis in groupby(wanted, key=itemgetter(0))}
    runs = dict.fromkeys(run for run, _, _ in ranges)
    return [(run, found.get(run, ())) for run in runs if selection.allows_run(run)]
