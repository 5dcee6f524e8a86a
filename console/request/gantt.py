"""The timeline of a request: statuses, rounds, DAGs, actions and output blocks as bars over time. Pure.

Positions are percentages of the time from the creation of the request to now, or to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

TICKS = 6
MIN_WIDTH = 0.6
MAX_BARS = 200  # of one lane
MIN_SPAN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Span:
    """Something that happened from a time to another, or until now."""

    label: str
    begin: datetime
    end: datetime | None
    tone: str = ""
    detail: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A span with its position."""

    span: Span
    left: float
    width: float


@dataclass(frozen=True, slots=True)
class Lane:
    """Bars of one kind. Bars that overlap are in different rows."""

    title: str
    rows: list[list[Bar]]
    hidden: int


@dataclass(frozen=True, slots=True)
class Gantt:
    """The timeline."""

    lanes: list[Lane]
    ticks: list[tuple[float, datetime]]
    begin: datetime
    end: datetime


def build_gantt(lanes: Iterable[tuple[str, Sequence[Span]]], *, begin: datetime, end: datetime) -> Gantt:
    """Return the timeline of the lanes that have spans."""
    end = max(end, begin + MIN_SPAN)
    return Gantt(
        lanes=[_lane(title, spans, begin, end) for title, spans in lanes if spans],
        ticks=[(100 * step / TICKS, begin + (end - begin) * step / TICKS) for step in range(TICKS + 1)],
        begin=begin,
        end=end,
    )


def _lane(title: str, spans: Sequence[Span], begin: datetime, end: datetime) -> Lane:
    shown = sorted(spans, key=lambda span: span.begin)[-MAX_BARS:]
    rows: list[list[Bar]] = []
    for span in shown:
        bar = _bar(span, begin, end)
        row = next((one for one in rows if one[-1].left + one[-1].width <= bar.left), None)
        if row is None:
            rows.append([bar])
        else:
            row.append(bar)
    return Lane(title, rows, hidden=len(spans) - len(shown))


def _bar(span: Span, begin: datetime, end: datetime) -> Bar:
    length = end - begin
    left = min(max((span.begin - begin) / length, 0.0), 1.0) * 100
    right = min(max(((span.end or end) - begin) / length, 0.0), 1.0) * 100
    width = max(right - left, MIN_WIDTH)
    return Bar(span, round(min(left, 100 - width), 3), round(width, 3))
