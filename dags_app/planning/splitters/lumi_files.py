"""Files as the lumi splitters see them: in the order of their lumis, with what is wanted of each run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from dags_app.planning.lumis import Ranges, count, normalised, order_key, span
from dags_app.planning.selection import Selection
from dags_app.planning.types import FileSpec, FileWindow, LumiRange

Runs = list[tuple[int, Ranges]]


@dataclass(slots=True)
class LumiFile:
    """A file with lumis, and what is wanted of it."""

    window: FileWindow
    lumis: int  # in the file
    events_per_lumi: int  # on average, to the nearest whole number
    run: int  # the lowest
    ranges: Ranges  # that are wanted
    wanted: int  # lumis in `ranges`
    runs: Runs | None  # None when all ranges are of the lowest run, and that is allowed
    joined: list[tuple[LumiRange, FileWindow]] | None = None  # lumis of it that other files have too

    def by_run(self) -> Runs:
        """The wanted ranges of each run that is allowed, even if there are none."""
        return [(self.run, self.ranges)] if self.runs is None else self.runs


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one place that have lumis, by the lumis of their lowest run; in columns, to be light."""

    files: list[FileSpec]
    ranges: list[Ranges]
    lumis: list[int]
    tangled: bool = False  # some lumi may be in two of the files


def in_order(files: list[FileSpec]) -> Place:
    """The files sorted, those of equal lumis by name. Files that come in order are not sorted again."""
    lumis = [span(file.lumis) for file in files]
    ranges = [file.lumis for file in files]
    if min(lumis) < 1:
        whole = [(file, own) for file in files if (own := normalised(file.lumis))]
        files, ranges = [file for file, _ in whole], [own for _, own in whole]
        lumis = [count(own) for own in ranges]
    if not _are_tangled(ranges):
        return Place(files, ranges, lumis)
    starts = [(own[0][0] << 64) + own[0][1] for own in ranges]
    order = sorted(range(len(files)), key=starts.__getitem__)
    tangled = _are_tangled(ranges[at] for at in order)
    if tangled:
        order.sort(key=lambda at: (order_key(ranges[at]), files[at].lfn))
    return Place(
        [files[at] for at in order], [ranges[at] for at in order], [lumis[at] for at in order], tangled
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
    select = selection.wanted
    for file, ranges, lumis in zip(place.files, place.ranges, place.lumis, strict=True):
        wanted = select(ranges) if file.mask is None else normalised(file.mask)
        run = ranges[0][0]
        runs = None if run == ranges[-1][0] and wanted else _runs(ranges, wanted, selection)
        left = lumis if wanted is ranges else count(wanted)
        yield LumiFile(FileWindow(file), lumis, round(file.events / lumis), run, wanted, left, runs)


def _runs(ranges: Ranges, wanted: Ranges, selection: Selection) -> Runs:
    found = {run: tuple(lumis) for run, lumis in groupby(wanted, key=itemgetter(0))}
    runs = dict.fromkeys(run for run, _, _ in ranges)
    return [(run, found.get(run, ())) for run in runs if selection.allows_run(run)]
