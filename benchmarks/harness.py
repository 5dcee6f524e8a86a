"""How a ratio is measured: candidate and reference in turn, in one run, medians compared.

A sample function does one repetition and answers its seconds; what it prepares is not in them.
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

SLOW_SEC = 20.0  # a sample that takes longer is not repeated as often
SLOW_REPEAT = 2
Sample = Callable[[], float]


class Verdict(StrEnum):
    """What became of a benchmark."""

    MET = "met"
    MISSED = "missed"
    SLOWER = "slower"  # within its bar, but slower than the committed record beyond noise
    NOT_RUN = "not run"
    FAILED = "failed"  # it broke: nothing was measured
    QUICK = "quick"  # a smoke test went through: nothing to judge


@dataclass(frozen=True, slots=True)
class Measured:
    """One value and every sample it was made from. `hoped` is judged for the moonshot, if another."""

    value: float
    samples: Mapping[str, Sequence[float]]
    note: str = ""
    hoped: float | None = None
    spread: tuple[float, float] | None = None  # where the middle half of the repetitions lies


@dataclass(frozen=True, slots=True)
class Result:
    """A bar and how it went."""

    bar: Bar
    verdict: Verdict
    measured: Measured | None = None
    reason: str = ""
    seconds: float = 0.0
    load: tuple[float, float, float] = (0.0, 0.0, 0.0)
    recorded: float | None = None  # the committed value, if it can be compared

    @property
    def moonshot(self) -> bool | None:
        """Was the bar met and the moonshot reached? None when nothing was judged."""
        if self.measured is None or self.verdict is Verdict.QUICK:
            return None
        hoped = self.measured.value if self.measured.hoped is None else self.measured.hoped
        return self.verdict is Verdict.MET and self.bar.reaches_moonshot(hoped)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Seconds of candidate and reference, in the order they were taken."""

    candidate: tuple[float, ...]
    reference: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """How many times the reference the candidate takes."""
        return median(self.candidate) / median(self.reference)

    @property
    def rate_percent(self) -> float:
        """How much of the reference's rate the candidate reaches."""
        return 100 / self.ratio

    @property
    def spread(self) -> tuple[float, float]:
        """Between which ratios the middle half of the pairs lies: how far the ratio can be trusted."""
        ratios = [ours / theirs for ours, theirs in zip(self.candidate, self.reference, strict=True)]
        return percentile(ratios, 25), percentile(ratios, 75)

    @property
    def spread_percent(self) -> tuple[float, float]:
        """The same for rates."""
        low, high = self.spread
        return 100 / high, 100 / low

    def as_samples(self) -> dict[str, tuple[float, ...]]:
        """For the record."""
        return {"candidate": self.candidate, "reference": self.reference}


def timed(
    work: Callable[[], object],
    *,
    before: Callable[[], object] | None = None,
    after: Callable[[], object] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Sample:
    """A sample of this work; what goes before and after it is not counted.

    Work that only computes is timed by `time.process_time`: on a shared machine the wall clock would
    count the neighbours, and more of them the longer the work is.
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
    """A sample of work so short that collecting garbage before it would take longer."""

    def sample() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return sample


def alternate(candidate: Sample, reference: Sample, *, repeat: int) -> Pairs:
    """Take both in turn, each first every other time; slow ones less often."""
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
    """Several samples of something that has no reference."""
    return tuple(sample() for _ in range(repeat))


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def judge(bar: Bar, measured: Measured, *, quick: bool = False, **more: Any) -> Result:
    """The result of a measurement, or of a smoke test."""
    verdict = Verdict.MET if bar.meets(measured.value) else Verdict.MISSED
    if quick:
        verdict = Verdict.QUICK
    return Result(bar=bar, verdict=verdict, measured=measured, **more)
