"""Counts the events of each lumi, and applies lumi masks, on arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rootfiles.errors import ENTRIES_DIFFER, RootFileError
from rootfiles.trees import LUMI, RUN, Array, Chunk, chunks

Mask = Mapping[Any, list[list[int]]]  # run -> [[first, last], …]
LumiEvents = dict[str, list[list[int]]]  # run -> [[first, last, events in each], …]


class LumiCounter:
    """Events by run and lumi."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], int] = {}
        self.events = 0

    def add(self, run: Array, lumi: Array) -> None:
        """Count events; those of a lumi usually follow each other, so stretches are counted, not events."""
        if not len(run):
            return
        self.events += len(run)
        changes = np.flatnonzero((run[1:] != run[:-1]) | (lumi[1:] != lumi[:-1])) + 1
        starts = np.concatenate([[0], changes])
        counts = np.diff(np.append(starts, len(run)))
        for number, first, count in zip(
            run[starts].tolist(), lumi[starts].tolist(), counts.tolist(), strict=True
        ):
            key = (number, first)
            self._seen[key] = self._seen.get(key, 0) + count

    def add_chunk(self, chunk: Chunk) -> None:
        self.add(chunk[RUN], chunk[LUMI])

    def add_all(self, other: LumiCounter) -> None:
        self.events += other.events
        for key, count in other._seen.items():
            self._seen[key] = self._seen.get(key, 0) + count

    def lumi_events(self) -> LumiEvents:
        """Return the events of each lumi; neighbours that hold equally many share a range."""
        found: LumiEvents = {}
        for (run, lumi), events in sorted(self._seen.items()):
            ranges = found.setdefault(str(run), [])
            if ranges and ranges[-1][1:] == [lumi - 1, events]:
                ranges[-1][1] = lumi
            else:
                ranges.append([lumi, lumi, events])
        return found

    def lumis(self) -> dict[str, list[list[int]]]:
        """Return the lumis that hold events, as ranges."""
        found: dict[str, list[list[int]]] = {}
        for run, lumi in sorted(self._seen):
            ranges = found.setdefault(str(run), [])
            if ranges and ranges[-1][1] == lumi - 1:
                ranges[-1][1] = lumi
            else:
                ranges.append([lumi, lumi])
        return found


def count_lumis(tree: Any) -> LumiEvents | None:
    """Return the events of each lumi of a tree; None if it has no lumis. Raises RootFileError."""
    if RUN not in tree.keys() or LUMI not in tree.keys():  # noqa: SIM118 - it is no dictionary
        return None
    counter = LumiCounter()
    for chunk in chunks(tree, (RUN, LUMI)):
        counter.add_chunk(chunk)
    if counter.events != tree.num_entries:
        message = f"{counter.events} of {tree.num_entries} events could be read"
        raise RootFileError(ENTRIES_DIFFER, message)
    return counter.lumi_events()


def allowed(mask: Mask | None, run: Array, lumi: Array) -> Array:
    """Return which events a lumi mask allows; None allows all."""
    if mask is None:
        return np.ones(len(run), dtype=bool)
    keep = np.zeros(len(run), dtype=bool)
    for number, ranges in mask.items():
        of_run = run == int(number)
        for first, last in ranges:
            keep |= of_run & (lumi >= first) & (lumi <= last)
    return keep


def passes(efficiency: float, event: Array) -> Array:
    """Return which events a filter of this efficiency keeps; the same event always has the same answer."""
    if efficiency >= 1:
        return np.ones(len(event), dtype=bool)
    mixed = event.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the finaliser of SplitMix64
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    kept: Array = (mixed >> np.uint64(11)) < efficiency * 2**53
    return kept
