"""Files as the lumi splitters see them: in the order of their lumis, with what is wanted of each run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from dags_app.planning.lumis import Ranges, count, normalised, order_key
from dags_app.planning.selection import Selection
from dags_app.planning.splitters.wanted import events_per_lumi, wanted_of
from dags_app.planning.types import FileSpec, FileWindow, LumiRange

Entry = tuple[int, int, str, Ranges, FileSpec]  # lowest run, its first lumi, name: the order of files


@dataclass(slots=True)
class LumiFile:
    """A file with lumis. A run that is allowed stands in `runs` even if none of its lumis is wanted."""

    window: FileWindow
    ranges: Ranges  # all of the file
    lumis: int
    events_per_lumi: int
    runs: list[tuple[int, Ranges]]
    wanted: int  # lumis in `runs`
    joined: list[tuple[LumiRange, FileWindow]] = field(default_factory=list)  # other files with a lumi of it


def in_order(files: Iterable[FileSpec]) -> list[Entry]:
    """The files that have lumis, sorted by the lumis of their lowest run, then by name."""
    entries: list[Entry] = []
    for file in files:
        ranges = normalised(file.lumis)
        if ranges:
            entries.append((ranges[0][0], ranges[0][1], file.lfn, ranges, file))
    entries.sort(key=_start)
    if any(one[:2] == following[:2] for one, following in pairwise(entries)):
        entries.sort(key=lambda entry: (order_key(entry[3]), entry[2]))
    return entries


def _start(entry: Entry) -> tuple[int, int, str]:
    return entry[:3]


def are_tangled(entries: Iterable[Entry]) -> bool:
    """May some lumi be in two of these files? Certainly not if each begins after the one before ended."""
    reached = (-1, -1)
    for run, first, _, ranges, _ in entries:
        if (run, first) <= reached:
            return True
        reached = (ranges[-1][0], ranges[-1][2])
    return False


def read_lumi_files(entries: Iterable[Entry], selection: Selection) -> Iterator[LumiFile]:
    """The files one by one, with what the selection leaves of them."""
    for run, _, _, ranges, file in entries:
        wanted = wanted_of(file, selection)
        if wanted is None:
            wanted = ranges
        lumis = count(ranges)
        if run == ranges[-1][0]:
            runs = [(run, wanted)] if selection.allows_run(run) else []
        else:
            runs = _runs(ranges, wanted, selection)
        yield LumiFile(
            window=FileWindow(file),
            ranges=ranges,
            lumis=lumis,
            events_per_lumi=events_per_lumi(file, lumis),
            runs=runs,
            wanted=lumis if wanted is ranges else count(wanted),
        )


def _runs(ranges: Ranges, wanted: Ranges, selection: Selection) -> list[tuple[int, Ranges]]:
    found = {run: tuple(lumis) for run, lumis in groupby(wanted, key=lambda part: part[0])}
    runs = dict.fromkeys(run for run, _, _ in ranges)
    return [(run, found.get(run, ())) for run in runs if selection.allows_run(run)]
