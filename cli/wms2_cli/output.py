"""Results on standard output: a table on a terminal, tab-separated values in a pipe, or JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

COLOURS = {
    "completed": "green", "active": "cyan", "pilot_running": "cyan", "planning": "cyan", "queued": "blue",
    "submitted": "blue", "held": "yellow", "partial": "yellow", "failed": "red", "aborted": "red",
}  # fmt: skip
LONG_TEXT = 48  # characters; longer cells are wrapped


class Format(StrEnum):
    """Output format of results."""

    TABLE = "table"
    TSV = "tsv"
    JSON = "json"
    QUIET = "quiet"


class Column(NamedTuple):
    """One column of a table: its title and how a row's cell is written."""

    title: str
    cell: Callable[[Mapping[str, Any]], Any]
    exact: Callable[[Mapping[str, Any]], Any] | None = None  # in a pipe, if it differs


def time_column(title: str, time: Callable[[Mapping[str, Any]], Any]) -> Column:
    """Return a column of a time: relative on a terminal, the time itself in a pipe."""
    return Column(title, lambda row: relative(time(row)), time)


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
        cells = [column.exact or column.cell for column in columns]
        sys.stdout.writelines("\t".join(flat(cell(row)) for cell in cells) + "\n" for row in rows)
    else:
        _print_table(rows, columns)


def print_facts(facts: Mapping[str, Any], form: Format, body: Any) -> None:
    """Print named values of one thing; as JSON, the body of the API."""
    if form is Format.JSON:
        print_json(body)
        return
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        if form is Format.TABLE:
            sys.stdout.write(wrap(clean(value), first=f"{name:<{width}}  ", rest=" " * (width + 2)) + "\n")
        else:
            sys.stdout.write(f"{name}\t{flat(value)}\n")


def wrap(text: str, *, first: str = "", rest: str = "") -> str:
    """Wrap text to the width of the terminal, with these prefixes. Words are not split."""
    import shutil  # only here: pipes need neither
    import textwrap

    width = max(shutil.get_terminal_size().columns, 40)
    lines = [
        textwrap.fill(
            line, width, initial_indent=rest if number else first, subsequent_indent=rest,
            break_long_words=False, break_on_hyphens=False,
        )
        for number, line in enumerate(text.split("\n"))
    ]  # fmt: skip
    return "\n".join(line or first.rstrip() for line in lines)


def moment(text: str | None) -> str:
    """Return a time of the API to the second."""
    return f"{text[:19].replace('T', ' ')} UTC" if text else ""


def is_number(text: str) -> bool:
    """Return whether a cell is empty or a number, also with a unit (`50.0 %`) or a total (`3/12`)."""
    return not text.strip("0123456789., %/-")


def shorten(text: str) -> str:
    """Return the first line of a text, cut if it is long."""
    line = text.partition("\n")[0]
    return line if len(line) <= LONG_TEXT else f"{line[: LONG_TEXT - 1]}…"


def clean(value: object) -> str:
    """Return text without control characters, so that a server cannot control the terminal."""
    if value is None:
        return ""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in str(value))


def age(moment: str | None) -> str:
    """Return the age of a time of the API in its two largest units."""
    if not moment:
        return ""
    return duration(max(_seconds_since(moment), 0))


def relative(moment: str | None) -> str:
    """Return a time of the API relative to now: `5m 3s ago` or `in 2d 4h`."""
    if not moment:
        return ""
    if abs(_seconds_since(moment)) < 1:
        return "now"
    return f"{age(moment)} ago" if _seconds_since(moment) > 0 else f"in {time_until(moment)}"


def time_until(moment: str) -> str:
    """Return the time left until a time of the API."""
    return duration(max(-_seconds_since(moment), 0))


def _seconds_since(moment: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()


def duration(seconds: float) -> str:
    whole = int(seconds)
    for size, large, rest, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{large} {whole % size // rest}{small}"
    return f"{whole}s"


def large(number: float) -> str:
    """Return a number with three digits and a unit of thousands, such as 1.25M."""
    for unit in ("", "k", "M", "G"):
        if number < 999.5:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}T"


def percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.1f} %"


def flat(value: object) -> str:
    """Return text on one line, without control characters."""
    return clean(value).replace("\n", " ")


def _print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
    """Print a table. Numbers are aligned to the right; only long texts are wrapped, never the first cell."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    cells = [[clean(column.cell(row)) for column in columns] for row in rows]
    for index, column in enumerate(columns):
        texts = [row[index] for row in cells]
        longest = max(map(len, texts), default=0)
        fixed = index == 0 or longest <= LONG_TEXT
        table.add_column(
            column.title,
            overflow="ellipsis" if fixed else "fold",
            no_wrap=fixed,
            min_width=longest if index == 0 else None,
            justify="right" if all(map(is_number, texts)) else "left",
        )
    for row in cells:
        table.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in row))
    console = Console(no_color="NO_COLOR" in os.environ)
    console.print(table if rows else Text("Nothing matches."))
