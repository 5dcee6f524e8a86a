"""Positions of a chain's steps and datasets on a page: levels from left to right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chains_app.selectors.chains import ChainGraph

COLUMN, ROW, WIDTH, HEIGHT, MARGIN = 250, 84, 170, 56, 16


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with two lines of text."""

    x: int
    y: int
    title: str
    text: str
    tone: str
    kind: str
    tooltip: str

    @property
    def middle(self) -> int:
        return self.y + HEIGHT // 2


@dataclass(frozen=True, slots=True)
class Line:
    """A curve from one box to another."""

    path: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """All shapes of the page."""

    width: int
    height: int
    boxes: list[Box]
    lines: list[Line]


def draw_graph(graph: ChainGraph, tones: Mapping[str, str]) -> Drawing:
    """Return boxes and lines. A dataset stands right of the step that writes it."""
    columns: dict[int, list[str]] = {}
    boxes: dict[str, Box] = {}

    def place(key: str, column: int, **values: str) -> None:
        rows = columns.setdefault(column, [])
        rows.append(key)
        x, y = MARGIN + column * COLUMN, MARGIN + (len(rows) - 1) * ROW
        boxes[key] = Box(x=x, y=y, **values)

    for data in graph.datasets:
        status = next(iter(data.statuses), "")
        count = sum(data.statuses.values())
        text = f"{count} datasets" if count > 1 else status
        place(
            data.id, 2 * (data.level + 1), title=data.label or data.role, text=text,
            tone=tones.get(status) or "neutral", kind=f"dataset {data.role}",
            tooltip="\n".join(data.datasets),
        )  # fmt: skip
    for step in graph.steps:
        counts = ", ".join(f"{number} {status}" for status, number in step.calls.items())
        several = sum(step.calls.values()) > 1
        place(
            step.id, 2 * step.level + 1, title=step.label, text=counts if several else step.status,
            tone=tones.get(step.status) or "neutral", kind=f"step {step.mode}",
            tooltip=step.waits_for or "\n".join(step.requests),
        )  # fmt: skip
    lines = [
        Line(_curve(boxes[one.source], boxes[one.target]))
        for one in graph.edges
        if one.source in boxes and one.target in boxes
    ]
    height = MARGIN * 2 + ROW * max((len(rows) for rows in columns.values()), default=1)
    return Drawing(MARGIN * 2 + COLUMN * max(columns, default=0) + WIDTH, height, list(boxes.values()), lines)


def _curve(source: Box, target: Box) -> str:
    start, end = source.x + WIDTH, target.x
    bend = (start + end) // 2
    return f"M{start},{source.middle} C{bend},{source.middle} {bend},{target.middle} {end},{target.middle}"
