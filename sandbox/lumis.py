"""Run and luminosity-section numbers as inclusive ranges.

Two forms: flat, ((run, first, last), …), and by run, {run: [[first, last], …]}, which JSON files hold.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

LumiRange = tuple[int, int, int]  # run, first lumi, last lumi
Ranges = tuple[LumiRange, ...]  # sorted, disjoint and not touching
Lumis = dict[int, list[list[int]]]
LumiEvents = dict[int, list[list[int]]]  # {run: [[first, last, events in each], …]}
_LARGEST = 2**63  # no lumi has such a number


def merged(ranges: Iterable[LumiRange]) -> Ranges:
    """Return the same lumis, each once, in as few ranges as possible."""
    joined: list[LumiRange] = []
    for run, first, last in sorted(ranges):
        if joined and joined[-1][0] == run and first <= joined[-1][2] + 1:
            joined[-1] = (run, joined[-1][1], max(last, joined[-1][2]))
        else:
            joined.append((run, first, last))
    return tuple(joined)


def count(ranges: Iterable[LumiRange]) -> int:
    """Return the number of lumis; a lumi in two ranges counts twice."""
    total = 0
    for _, first, last in ranges:
        total += last - first + 1
    return total


def flat(lumis: Lumis) -> Iterator[LumiRange]:
    """Yield the ranges of every run."""
    return ((run, first, last) for run, ranges in lumis.items() for first, last in ranges)


def by_run(ranges: Iterable[LumiRange]) -> Lumis:
    """Return the ranges by run, in their order."""
    runs: Lumis = {}
    for run, first, last in ranges:
        runs.setdefault(run, []).append([first, last])
    return runs


def compress(seen: Mapping[int, Iterable[int]]) -> Lumis:
    """Return ranges of exactly the given lumis."""
    return by_run(merged((run, lumi, lumi) for run, lumis in seen.items() for lumi in lumis))


def union(parts: Iterable[Lumis]) -> Lumis:
    """Return ranges of every lumi of every part, once."""
    return by_run(merged(one for part in parts for one in flat(part)))


def outside(part: Lumis, whole: Lumis) -> str:
    """Describe the first range of `part` that is not in `whole`; empty if all are."""
    for run, ranges in part.items():
        allowed = whole.get(run, [])
        for first, last in ranges:
            place = bisect_right(allowed, [first, _LARGEST]) - 1
            if place < 0 or allowed[place][1] < last:
                return f"run {run} lumis {first}-{last}"
    return ""


def tally(counts: Mapping[int, Mapping[int, int]]) -> LumiEvents:
    """Return the events of each lumi; neighbours with equal numbers share a range."""
    found: LumiEvents = {}
    for run, lumis in sorted(counts.items()):
        ranges = found.setdefault(run, [])
        for lumi, events in sorted(lumis.items()):
            if ranges and ranges[-1][1:] == [lumi - 1, events]:
                ranges[-1][1] = lumi
            else:
                ranges.append([lumi, lumi, events])
    return found


def expand(lumis: Lumis) -> dict[int, tuple[int, ...]]:
    """Return every lumi number, for formats without ranges."""
    return {
        run: tuple(lumi for first, last in ranges for lumi in range(first, last + 1))
        for run, ranges in lumis.items()
    }
