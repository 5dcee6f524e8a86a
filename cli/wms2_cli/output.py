"""Results on standard output: a table on a terminal, tab-separated values in a pipe, or JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

COLOURS = {
    "completed": "green", "active": "cyan", "pilot_running": "cyan", "planning": "cyan", "queued": "blue",
    "submitted": "blue", "held": "yellow", "partial": "yellow", "failed": "red", "aborted": "red",
}  # fmt: skip


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    TSV = "tsv"
    JSON = "json"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its title and how a row's cell is written."""

    title: str
    cell: Callable[[Mapping[str, Any]], Any]


def choose_format(*, as_json: bool, quiet: bool) -> Format:
    """Return the format of this call."""
    if as_json:
        return Format.JSON
    if quiet:
        return Format.QUIET
    return Format.TABLE if sys.stdout.isatty() else Format.TSV


def print_json(body: Any) -> None:
    sys.stdout.write(json.dumps(body, indent=2, ensure_ascii=False) + "\n")


def print_rows(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[Column], form: Format, *, key: str
) -> None:
    """Print rows; `key` is the member that identifies one."""
    rows = list(rows)  # an error comes before the first line
    if form is Format.JSON:
        print_json(rows)
    elif form is Format.QUIET:
        sys.stdout.writelines(f"{row[key]}\n" for row in rows)
    elif form is Format.TSV:
        sys.stdout.write("\t".join(column.title.lower().replace(" ", "_") for column in columns) + "\n")
        sys.stdout.writelines("\t".join(_flat(column.cell(row)) for column in columns) + "\n" for row in rows)
    else:
        _print_table(rows, columns)


def print_facts(facts: Mapping[str, Any], form: Format, body: Any) -> None:
    """Print named values of one thing; as JSON, the body of the API."""
    if form is Format.JSON:
        print_json(body)
        return
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        text = clean(value)
        sys.stdout.write(
            f"{name}\t{_flat(value)}\n" if form is not Format.TABLE else f"{name:<{width}}  {text}\n"
        )


def clean(value: object) -> str:
    """Return text without control characters: what a server sends must not steer the terminal."""
    if value is None:
        return ""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in str(value))


def age(moment: str | None) -> str:
    """Return how long ago a moment of the API was, in its largest two units."""
    if not moment:
        return ""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    return duration(abs(seconds))


def duration(seconds: float) -> str:
    whole = int(seconds)
    for size, large, rest, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{large} {whole % size // rest}{small}"
    return f"{whole}s"


def percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.1f} %"


def _flat(value: object) -> str:
    return clean(value).replace("\n", " ")


def _print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column.title, overflow="fold")
    for row in rows:
        cells = [clean(column.cell(row)) for column in columns]
        table.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in cells))
    console = Console(no_color="NO_COLOR" in os.environ)
    console.print(table if rows else Text("Nothing matches."))
