"""Run and luminosity-section numbers as inclusive ranges: {run: [[first, last], …]}, sorted and disjoint."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

Lumis = dict[int, list[list[int]]]
LumiEvents = dict[int, list[list[int]]]  # {run: [[first, last, events in each], …]}
_LARGEST = 2**63  # no lumi has such a number


def compress(seen: Mapping[int, Iterable[int]]) -> Lumis:
    """Ranges holding exactly the given lumis."""
    return union([{run: [[lumi, lumi] for lumi in lumis]} for run, lumis in seen.items()])


def union(parts: Iterable[Lumis]) -> Lumis:
    """Ranges holding every lumi of every part once."""
    collected: dict[int, list[list[int]]] = {}
    for part in parts:
        for run, ranges in part.items():
            collected.setdefault(run, []).extend(ranges)
    return {run: _coalesce(collected[run]) for run in sorted(collected) if collected[run]}


def count(lumis: Lumis) -> int:
    """How many lumis the ranges hold."""
    return sum(last - first + 1 for ranges in lumis.values() for first, last in ranges)


def outside(part: Lumis, whole: Lumis) -> str:
    """The first range of `part` that `whole` does not hold, in words; '' if it holds them all."""
    for run, ranges in part.items():
        allowed = whole.get(run, [])
        for first, last in ranges:
            place = bisect_right(allowed, [first, _LARGEST]) - 1
            if place < 0 or allowed[place][1] < last:
                return f"run {run} lumis {first}-{last}"
    return ""


def tally(counts: Mapping[int, Mapping[int, int]]) -> LumiEvents:
    """Events of each lumi; neighbours that hold equally many share a range."""
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
    """Every lumi number by itself, for formats that know no ranges."""
    return {
        run: tuple(lumi for first, last in ranges for lumi in range(first, last + 1))
        for run, ranges in lumis.items()
    }


def _coalesce(ranges: list[list[int]]) -> list[list[int]]:
    joined: list[list[int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    return joined
