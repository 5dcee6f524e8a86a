"""The burn-down chart: remaining events over time, and the interval of the expected end. Pure.

Positions are percentages of the chart, from its left and top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

TICKS = 5
MIN_SPAN = timedelta(minutes=1)


class Sampled(Protocol):
    """The columns of a progress sample that the chart uses."""

    @property
    def at(self) -> datetime: ...
    @property
    def events_total(self) -> int: ...
    @property
    def events_done(self) -> int: ...
    @property
    def events_running(self) -> int: ...
    @property
    def events_excluded(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Forecast:
    """The expected end and its interval."""

    earliest: datetime
    likely: datetime
    latest: datetime


@dataclass(frozen=True, slots=True)
class Tick:
    """A label of an axis."""

    position: float
    value: datetime | float


@dataclass(frozen=True, slots=True)
class Burndown:
    """Geometry of the chart: polylines as SVG points, axes as ticks, and the numbers as a table."""

    line: str
    area: str
    band: str
    forecast: str
    now: float
    times: list[Tick]
    amounts: list[Tick]
    rows: list[tuple[datetime, int]]


def build_burndown(
    samples: Sequence[Sampled], *, now: datetime, forecast: Forecast | None
) -> Burndown | None:
    """Return the chart; None if there are fewer than two samples of some work."""
    left = [(one.at, _remaining(one)) for one in samples]
    most = max((amount for _, amount in left), default=0)
    if len(left) < 2 or most <= 0:
        return None
    begin, last = left[0][0], left[-1][1]
    end = max(now, begin + MIN_SPAN)
    if forecast is not None:  # a far end would squeeze what has happened into a corner
        end = max(end, min(forecast.latest, now + 2 * (now - begin) + MIN_SPAN))
    scale = _Scale(begin, end, most)
    points = [scale.point(at, amount) for at, amount in left] + [scale.point(now, last)]
    line = " ".join(points)
    return Burndown(
        line=line,
        area=f"{scale.point(begin, 0)} {line} {scale.point(now, 0)}",
        band=_band(scale, now, last, forecast),
        forecast=f"{scale.point(now, last)} {scale.point(forecast.likely, 0)}" if forecast else "",
        now=scale.x(now),
        times=[Tick(100 * step / TICKS, begin + (end - begin) * step / TICKS) for step in range(TICKS + 1)],
        amounts=[Tick(100 - 25 * step, most * step / 4) for step in range(5)],
        rows=left[:: max(1, len(left) // 10)],
    )


def _remaining(one: Sampled) -> int:
    return max(one.events_total - one.events_excluded - one.events_done - one.events_running, 0)


def _band(scale: _Scale, now: datetime, left: int, forecast: Forecast | None) -> str:
    if forecast is None:
        return ""
    ends = (scale.point(forecast.earliest, 0), scale.point(forecast.latest, 0))
    return " ".join((scale.point(now, left), *ends))


@dataclass(frozen=True, slots=True)
class _Scale:
    """Converts times and amounts to percentages."""

    begin: datetime
    end: datetime
    most: int

    def x(self, at: datetime) -> float:
        return round(100 * (at - self.begin) / (self.end - self.begin), 2)

    def point(self, at: datetime, amount: int) -> str:
        return f"{self.x(at)},{100 - 100 * amount / self.most:.2f}"
