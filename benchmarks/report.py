"""Results of a run as a table for the terminal and as a JSON record."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.comparison import machine, write_lines
from benchmarks.harness import Result, Verdict
from benchmarks.run import REPEAT

COLOURS = {
    Verdict.MET: "green",
    Verdict.MISSED: "bold red",
    Verdict.SLOWER: "bold yellow",
    Verdict.NOT_RUN: "dim",
    Verdict.FAILED: "bold magenta",
    Verdict.QUICK: "dim",
}
COLUMNS = ("ID", "what", "measured", "spread", "recorded", "against", "bar", "verdict", "moonshot", "note")
PACKAGES = ("Django", "djangorestframework", "celery", "kombu", "redis", "psycopg", "htcondor")
VERDICT = COLUMNS.index("verdict")
PIPED_WIDTH = 340
BEYOND_A_LIMIT = 115  # percent of a theoretical limit; larger values are measurement errors


@dataclass(frozen=True, slots=True)
class Conditions:
    """Time, versions and load of the run."""

    quick: bool
    started_at: datetime
    load_before: tuple[float, float, float]
    versions: Mapping[str, str]

    @property
    def is_busy(self) -> bool:
        """Whether the machine was busy before the run, which makes some ratios less reliable."""
        return self.load_before[0] > (os.cpu_count() or 1)


def row_of(result: Result) -> tuple[str, ...]:
    """Return a result as the columns of the table."""
    bar, measured = result.bar, result.measured
    head = (bar.id, bar.what)
    if measured is None:
        return (*head, "–", "", "", bar.against, bar.limit, result.verdict, "", result.reason)
    reached = "" if result.moonshot is None else "reached " if result.moonshot else "no "
    moonshot = f"{reached}({bar.shown(bar.moonshot)})"
    middle = "" if measured.spread is None else "–".join(f"{end:.3g}" for end in measured.spread)
    recorded = "" if result.recorded is None else bar.shown(result.recorded)
    judged = (bar.against, bar.limit, result.verdict, moonshot, _note(result))
    return (*head, bar.shown(measured.value), middle, recorded, *judged)


def _note(result: Result) -> str:
    measured = result.measured
    if measured is None:
        return result.reason
    taken = max(len(samples) for samples in measured.samples.values())
    fewer = f"{taken} repetition{'s' if taken > 1 else ''}" if taken < REPEAT else ""
    doubt = ""
    if result.bar.unit == "%" and measured.value > BEYOND_A_LIMIT and result.verdict is not Verdict.QUICK:
        doubt = "DOUBTFUL: faster than its limit"
    return "; ".join(part for part in (measured.note, fewer, doubt) if part)


def print_table(results: Sequence[Result], conditions: Conditions, *, out: TextIO | None = None) -> None:
    """Print the table: with lines and colours on a terminal, plain in a pipe."""
    out = out or sys.stdout
    on_terminal = out.isatty()
    console = Console(file=out, width=None if on_terminal else PIPED_WIDTH, no_color=not on_terminal)
    table = Table(box=box.ROUNDED if on_terminal else None, pad_edge=on_terminal)
    for name in COLUMNS:
        table.add_column(name, no_wrap=not on_terminal, justify="right" if name == "measured" else "left")
    for result in results:
        cells = list(row_of(result))
        if on_terminal:
            cells[VERDICT] = f"[{COLOURS[result.verdict]}]{cells[VERDICT]}[/]"
        table.add_row(*cells)
    console.print(table)
    if conditions.quick:
        console.print("quick: not a measurement")
    if conditions.is_busy:
        load, cores = conditions.load_before[0], os.cpu_count()
        console.print(f"the machine was busy before the first benchmark: load {load:.1f} on {cores} cores")


def write_record(path: Path, results: Sequence[Result], conditions: Conditions) -> None:
    """Write every sample, and the conditions of the measurement, as JSON."""
    record = {
        "schema": 1,
        "quick": conditions.quick,
        "started_at": conditions.started_at.isoformat(),
        "finished_at": datetime.now(UTC).isoformat(),
        "load_average": {"before": conditions.load_before, "after": os.getloadavg()},
        "machine": machine(),
        "platform": platform.platform(),
        "versions": package_versions() | dict(conditions.versions),
        "results": [_as_json(result) for result in results],
    }
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(write_lines(record), encoding="utf-8")
    temporary.replace(path)


def _as_json(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = asdict(result.bar) | {
        "verdict": result.verdict,
        "seconds": round(result.seconds, 1),
        "load_average": result.load,
    }
    if result.measured is None:
        return found | {"reason": result.reason}
    measured = result.measured
    return found | {
        "value": measured.value,
        "recorded": result.recorded,
        "spread": measured.spread,
        "moonshot_value": measured.hoped,
        "moonshot_reached": result.moonshot,
        "note": _note(result),
        "samples": measured.samples,
    }


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the main packages."""
    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
