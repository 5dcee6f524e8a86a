"""Measures ratios: candidate and reference run alternately, and their medians are compared.

A sample function does one repetition and returns its seconds, without the preparation.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any

from benchmarks.bars import Bar

SLOW_SEC = 20.0  # a sample that takes longer is repeated less often
SLOW_REPEAT = 2
Sample = Callable[[], float]


class Verdict(StrEnum):
    """Outcome of a benchmark."""

    MET = "met"
    MISSED = "missed"
    SLOWER = "slower"  # within its bar, but slower than the committed record beyond noise
    NOT_RUN = "not run"
    FAILED = "failed"  # an error: nothing was measured
    QUICK = "quick"  # a smoke test without errors; its values are not compared with the bar


@dataclass(frozen=True, slots=True)
class Measured:
    """One value and every sample it was made from.

    `hoped` is the value compared with the moonshot, if it differs.
    """

    value: float
    samples: Mapping[str, Sequence[float]]
    note: str = ""
    hoped: float | None = None
    spread: tuple[float, float] | None = None  # interquartile range of the repetitions


@dataclass(frozen=True, slots=True)
class Result:
    """A bar with the result of its benchmark."""

    bar: Bar
    verdict: Verdict
    measured: Measured | None = None
    reason: str = ""
    seconds: float = 0.0
    load: tuple[float, float, float] = (0.0, 0.0, 0.0)
    recorded: float | None = None  # the committed value, if it can be compared

    @property
    def moonshot(self) -> bool | None:
        """Whether bar and moonshot were reached; None if no value was compared."""
        if self.measured is None or self.verdict is Verdict.QUICK:
            return None
        hoped = self.measured.value if self.measured.hoped is None else self.measured.hoped
        return self.verdict is Verdict.MET and self.bar.reaches_moonshot(hoped)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Seconds of candidate and reference, in the order of measurement."""

    candidate: tuple[float, ...]
    reference: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Duration of the candidate as a multiple of the reference."""
        return median(self.candidate) / median(self.reference)

    @property
    def rate_percent(self) -> float:
        """Rate of the candidate in percent of the reference's."""
        return 100 / self.ratio

    @property
    def spread(self) -> tuple[float, float]:
        """Interquartile range of the ratios, as a measure of their uncertainty."""
        ratios = [ours / theirs for ours, theirs in zip(self.candidate, self.reference, strict=True)]
        return percentile(ratios, 25), percentile(ratios, 75)

    @property
    def spread_percent(self) -> tuple[float, float]:
        """Interquartile range of the rates."""
        low, high = self.spread
        return 100 / high, 100 / low

    def as_samples(self) -> dict[str, tuple[float, ...]]:
        """Return the samples for the JSON record."""
        return {"candidate": self.candidate, "reference": self.reference}


def timed(
    work: Callable[[], object],
    *,
    before: Callable[[], object] | None = None,
    after: Callable[[], object] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Sample:
    """Return a sample function of this work. `before` and `after` are not timed.

    Use `time.process_time` for work that only computes: on a shared machine the wall clock would include the
    time of other processes.
    """

    def sample() -> float:
        if before is not None:
            before()
        gc.collect()
        began = clock()
        work()
        seconds = clock() - began
        if after is not None:
            after()
        return seconds

    return sample


def stopped(work: Callable[[], object]) -> Sample:
    """Return a sample function of work that is shorter than the garbage collection before it would be."""

    def sample() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return sample


def alternate(candidate: Sample, reference: Sample, *, repeat: int) -> Pairs:
    """Measure both alternately, with alternating order. Slow samples are repeated less often."""
    ours: list[float] = []
    theirs: list[float] = []
    turn = 0
    while turn < repeat:
        both = [(ours, candidate), (theirs, reference)]
        for kept, sample in both if turn % 2 == 0 else reversed(both):
            kept.append(sample())
        if ours[-1] + theirs[-1] > SLOW_SEC:
            repeat = min(repeat, SLOW_REPEAT)
        turn += 1
    return Pairs(candidate=tuple(ours), reference=tuple(theirs))


def repeated(sample: Sample, *, repeat: int) -> tuple[float, ...]:
    """Take several samples of work without a reference."""
    return tuple(sample() for _ in range(repeat))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that this percentage of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def judge(bar: Bar, measured: Measured, *, quick: bool = False, **more: Any) -> Result:
    """Return the result of a measurement or of a smoke test."""
    verdict = Verdict.MET if bar.meets(measured.value) else Verdict.MISSED
    if quick:
        verdict = Verdict.QUICK
    return Result(bar=bar, verdict=verdict, measured=measured, **more)
