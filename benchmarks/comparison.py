"""Comparison of results with the committed record, so that a slowdown within the bars is noticed.

The record has the values that met their bar, without samples. For a new one, run `./wms2 bench --json FILE`
on a quiet machine, then `python -m benchmarks.comparison FILE > benchmarks/record.json`.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.bars import Bar
from benchmarks.harness import Measured, Result, Verdict

RECORD = Path(__file__).with_name("record.json")
KEPT = ("id", "what", "against", "unit", "value", "spread", "verdict", "note", "load_average")  # of a result
COMPARABLE = (Verdict.MET, Verdict.SLOWER)  # a value that missed its bar is not kept
NOISE = 1.5  # two quiet runs of one commit differ by less
ABSOLUTE_UNITS = ("s", "ms", "MB", "calls/s")  # comparable on one machine only; the others are ratios


@dataclass(frozen=True, slots=True)
class Record:
    """Values of an earlier run, by benchmark, and the machine they were measured on."""

    machine: Mapping[str, Any]
    values: Mapping[str, float]

    @classmethod
    def read(cls, path: Path = RECORD) -> Record:
        """Read a file written by a benchmark run; without a file, nothing is compared."""
        if not path.exists():
            return cls(machine={}, values={})
        document = json.loads(path.read_text(encoding="utf-8"))
        measured = {one["id"]: float(one["value"]) for one in document["results"] if "value" in one}
        return cls(machine=document["machine"], values=measured)

    def value(self, bar: Bar) -> float | None:
        """Return the recorded value if it can be compared with one measured here."""
        if bar.unit in ABSOLUTE_UNITS and self.machine != machine():
            return None
        return self.values.get(bar.id)


def machine() -> dict[str, Any]:
    """Return the properties of this machine that decide about speed."""
    return {"cores": os.cpu_count(), "processor": _processor(), "system": platform.system()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def compare(results: Iterable[Result], record: Record) -> list[Result]:
    """Add the recorded value to each result; a result that is worse beyond noise becomes SLOWER."""
    return [_compare(result, record.value(result.bar)) for result in results]


def _compare(result: Result, recorded: float | None) -> Result:
    if recorded is None or result.measured is None or result.verdict is Verdict.QUICK:
        return result
    slower = result.verdict is Verdict.MET and _slowdown(result.bar, result.measured, recorded) > NOISE
    return replace(result, recorded=recorded, verdict=Verdict.SLOWER if slower else result.verdict)


def _slowdown(bar: Bar, measured: Measured, recorded: float) -> float:
    """Return how many times worse the best plausible value is than the recorded one."""
    plausible: Sequence[float] = [measured.value, *(measured.spread or ())]
    best = max(plausible) if bar.at_least else min(plausible)
    worse, better = (recorded, best) if bar.at_least else (best, recorded)
    return worse / better if better > 0 else 1.0


def write_lines(document: Mapping[str, Any]) -> str:
    """Return JSON with one line per result, so that differences between two records can be read."""
    lines = [json.dumps(result, ensure_ascii=False) for result in document["results"]]
    head = json.dumps({**document, "results": []}, indent=1, ensure_ascii=False)
    return head.replace('"results": []', '"results": [\n  ' + ",\n  ".join(lines) + "\n ]") + "\n"


def shorten(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a run's record that is committed."""
    met = [one for one in document["results"] if one["verdict"] in COMPARABLE]
    results = [{name: one[name] for name in KEPT if name in one} for one in met]
    return {name: value for name, value in document.items() if name != "platform"} | {"results": results}


if __name__ == "__main__":
    sys.stdout.write(write_lines(shorten(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
