"""Results of tests: written by a pytest plugin, read for the summary of the whole run.

One JSON object per line, written as it happens, so that a killed pytest still shows its last test.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

RESULTS = "WMS2_TEST_RESULTS"  # the file to write
PASSED, FAILED, SKIPPED, STARTED = "passed", "failed", "skipped", "started"
SLOWEST = 10
NO_TESTS_COLLECTED = 5  # pytest's exit code; of a whole run with -k some lanes have none


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one test, or of the collection of one file."""

    test: str
    outcome: str
    seconds: float = 0.0
    reason: str = ""


class Recorder:
    """Combines the phases of each test and appends its outcome to the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: dict[str, Result] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write(Result(nodeid, STARTED))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(Result(report.nodeid, FAILED, reason=_reason(report)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        sofar = self._open.pop(report.nodeid, Result(report.nodeid, PASSED))
        outcome, reason = sofar.outcome, sofar.reason
        if report.failed:
            outcome, reason = FAILED, reason or _reason(report)
        elif report.skipped and outcome is PASSED:
            outcome = SKIPPED
        now = Result(report.nodeid, outcome, sofar.seconds + report.duration, reason)
        if report.when == "teardown":
            self._write(now)
        else:
            self._open[report.nodeid] = now

    def _write(self, result: Result) -> None:
        line = json.dumps([result.test, result.outcome, result.seconds, result.reason])
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def _reason(report: pytest.CollectReport | pytest.TestReport) -> str:
    """Return the first line of the error, with the phase if it is not the test itself."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash else report.longrepr or "").strip()
    phase = "" if report.when == "call" else f"{report.when}: "
    return phase + next(iter(text.splitlines()), "")[:200]


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get(RESULTS)
    if path and not hasattr(config, "workerinput"):  # xdist's workers report to the process that started them
        config.pluginmanager.register(Recorder(Path(path)))


def read_results(path: Path, *, ended: bool = True) -> list[Result]:
    """Return the outcome of every test. One that only started counts as failed once pytest has ended."""
    if not path.exists():
        return []
    found: dict[str, Result] = {}
    text = path.read_text(encoding="utf-8")
    for line in text[: text.rfind("\n") + 1].splitlines():
        result = Result(*json.loads(line))
        earlier = found.get(result.test)
        if earlier is None or earlier.outcome == STARTED or result.outcome == FAILED:
            found[result.test] = result
    known = [one for one in found.values() if one.outcome != STARTED]
    lost = [one for one in found.values() if one.outcome == STARTED and ended]
    return known + [
        replace(one, outcome=FAILED, reason="did not end: pytest was stopped or killed") for one in lost
    ]


def unexplained(name: str, code: int, results: Sequence[Result]) -> list[Result]:
    """Return a failure for a pytest with a non-zero exit code and no failed test."""
    if code in (0, NO_TESTS_COLLECTED) or any(result.outcome == FAILED for result in results):
        return []
    return [Result(name, FAILED, reason=f"pytest ended with exit code {code}, see its output above")]


def render_summary(results: Iterable[Result], *, seconds: float) -> str:
    """Return the slowest tests, all failures, and the totals on the last line."""
    every = list(results)
    slow = sorted(every, key=lambda result: result.seconds, reverse=True)[:SLOWEST]
    failed = [result for result in every if result.outcome == FAILED]
    lines = [f"the {len(slow)} slowest tests"] if slow else []
    lines += [f"{result.seconds:8.1f} s  {result.test}" for result in slow]
    if failed:
        lines += ["", "failures", *(f"  {result.test}: {result.reason}" for result in failed)]
    minutes, rest = divmod(round(seconds), 60)
    return "\n".join([*lines, "", f"the tests took {minutes} min {rest:02} s", count_outcomes(every)])


def count_outcomes(results: Sequence[Result]) -> str:
    """Return how many passed, failed and were skipped."""
    outcomes = [result.outcome for result in results]
    return ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in (PASSED, FAILED, SKIPPED))
