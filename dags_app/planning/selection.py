"""Selection of runs and lumis of a dataset, in ranges."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from dags_app.planning.lumis import intersect, normalised
from dags_app.planning.parameters import find, refuse
from sandbox.lumis import LumiRange, Ranges
from sandbox.values import is_whole
from wms2_project.errors import InvalidInput

_MASK_CURE = "Give pairs [first, last] for each run, the first not above the last"


Good = tuple[Ranges, list[int]]  # selected ranges of a run, and their ends


class Selection:
    """Run lists and lumi mask of a request. Runs are parsed when they are first needed."""

    __slots__ = ("_allowed", "_latest", "_mask", "_refused", "_runs", "everything")

    def __init__(
        self, *, allowed: frozenset[int], refused: frozenset[int], mask: Mapping[Any, Any] | None
    ) -> None:
        self._allowed = allowed
        self._refused = refused
        self._mask = mask
        self._runs: dict[int, Good | None] = {}
        self._latest: LumiRange = (-1, 0, 0)  # last range that contained a whole file: often also the next
        self.everything = not (allowed or refused or mask)

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Selection:
        """Build from the parameters of a request; empty lists and an empty mask select everything."""
        return cls(
            allowed=_runs(params, "run_whitelist"),
            refused=_runs(params, "run_blacklist"),
            mask=_mask(params),
        )

    def check(self) -> None:
        """Raise InvalidInput if the mask is invalid anywhere, including runs that are not in the input."""
        for name, pairs in (self._mask or {}).items():
            run = _run_number("lumi_mask", name)
            if (name != run and name != str(run)) or (name == run and str(run) in (self._mask or {})):
                refuse("lumi_mask", f"has the run {name!r:.40}", "Write each run once, as in 316877")
            _pairs(run, pairs)

    def allows_run(self, run: int) -> bool:
        """Return whether lumis of the run may be selected."""
        return self.everything or self._good(run) is not None

    def of_run(self, run: int) -> Selection:
        """Return the selection of this run alone."""
        return Selection(allowed=frozenset({run}), refused=self._refused, mask=self._mask)

    def wanted(self, lumis: Ranges) -> Ranges:
        """Return the selected parts of these ranges; the same object if all are selected."""
        if self.everything or not lumis:
            return lumis
        run, first, _ = lumis[0]
        last_run, _, last = lumis[-1]
        in_run, low, high = self._latest
        if run == last_run == in_run and low <= first and last <= high:
            return lumis
        if run != last_run:
            by_run = groupby(lumis, key=itemgetter(0))
            return tuple(part for _, own in by_run for part in self.wanted(tuple(own)))
        good = self._good(run)
        if good is None:
            return ()
        ranges, ends = good
        at = bisect_left(ends, first)
        if at == len(ends):
            return ()
        if ranges[at][1] <= first and last <= ends[at]:
            self._latest = ranges[at]
            return lumis
        return intersect(lumis, ranges[at : bisect_left(ends, last) + 1])

    def _good(self, run: int) -> Good | None:
        """Return the selected lumis of a run; None if the run is excluded."""
        if run not in self._runs:
            self._runs[run] = self._parse_run(run)
        return self._runs[run]

    def _parse_run(self, run: int) -> Good | None:
        if (self._allowed and run not in self._allowed) or run in self._refused:
            return None
        if not self._mask:
            return ((run, 0, sys.maxsize),), [sys.maxsize]
        pairs = self._mask.get(run, self._mask.get(str(run)))
        if pairs is None:
            return None
        good = _pairs(run, pairs)
        return good, [last for _, _, last in good]


def _runs(params: Mapping[str, Any], name: str) -> frozenset[int]:
    runs = find(params, name) or ()
    if isinstance(runs, str | bytes | Mapping) or not isinstance(runs, Iterable):
        refuse(name, f"is {runs!r:.40}", "Give a list of run numbers")
    return frozenset(_run_number(name, run) for run in runs)


def _mask(params: Mapping[str, Any]) -> Mapping[Any, Any] | None:
    mask = params.get("lumi_mask") or None
    runs, lumis = params.get("runs"), params.get("lumis")
    if runs and lumis:
        if mask is not None:
            refuse("lumi_mask", "is given beside runs and lumis", "Give one of them")
        return _paired(runs, lumis)
    if mask is not None and not isinstance(mask, Mapping):
        refuse("lumi_mask", f"is {mask!r:.40}", _MASK_CURE)
    return mask


def _paired(runs: Sequence[Any], lumis: Sequence[Any]) -> dict[int, list[list[int]]]:
    """Return the mask given as a list of runs and a list of texts such as "1,4,23,45"."""
    numbers = [_run_number("runs", run) for run in runs]
    if len(set(numbers)) != len(numbers) or len(numbers) != len(lumis):
        refuse("runs", "does not fit lumis", "Name each run once, with one text of lumis for each")
    mask = {}
    for run, text in zip(numbers, lumis, strict=True):
        parts = str(text).split(",")
        if len(parts) % 2 or not all(part.strip().isdecimal() for part in parts):
            refuse("lumis", f"has {text!r:.40} for run {run}", 'Give pairs of numbers, such as "1,4,23,45"')
        ends = [int(part) for part in parts]
        mask[run] = [[first, last] for first, last in zip(ends[::2], ends[1::2], strict=True)]
    return mask


def _pairs(run: int, pairs: Any) -> Ranges:
    try:
        if not all(is_whole(number) for pair in pairs for number in pair):
            raise ValueError("not whole numbers")
        return normalised([(run, first, last) for first, last in pairs])
    except (TypeError, ValueError, InvalidInput):
        refuse("lumi_mask", f"has {pairs!r:.60} for run {run}", _MASK_CURE)


def _run_number(name: str, run: Any) -> int:
    if is_whole(run) or (isinstance(run, str) and run.isdecimal() and run.isascii()):
        return int(run)
    refuse(name, f"has the run {run!r:.40}", "Give run numbers from 0 up")
