"""Histograms of the resources that jobs used, with markers for the requested value and the limit. Pure.

Positions are percentages of the chart's width, heights of its highest bar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BINS = 24
MARGIN = 1.08  # the axis ends a little beyond the largest value


@dataclass(frozen=True, slots=True)
class Marker:
    """A vertical line: the requested value, or the limit."""

    label: str
    value: float
    tone: str
    position: float = 0.0


@dataclass(frozen=True, slots=True)
class Bin:
    """One bar."""

    height: float
    count: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram of measured values."""

    title: str
    unit: str
    bins: list[Bin]
    markers: list[Marker]
    top: float
    count: int
    median: float
    largest: float


def build_histogram(
    values: Sequence[float], *, title: str, unit: str, markers: Sequence[Marker] = ()
) -> Histogram | None:
    """Return the histogram; None without values. Markers without a value are left out."""
    present = sorted(value for value in values if value > 0)
    if not present:
        return None
    known = [marker for marker in markers if marker.value > 0]
    top = MARGIN * max(present[-1], *(marker.value for marker in known), 0)
    counts = [0] * BINS
    for value in present:
        counts[min(int(BINS * value / top), BINS - 1)] += 1
    highest, step = max(counts), top / BINS
    return Histogram(
        title=title,
        unit=unit,
        bins=[
            Bin(round(100 * count / highest, 1), count, step * number, step * (number + 1))
            for number, count in enumerate(counts)
        ],
        markers=[Marker(one.label, one.value, one.tone, round(100 * one.value / top, 2)) for one in known],
        top=top,
        count=len(present),
        median=present[len(present) // 2],
        largest=present[-1],
    )
