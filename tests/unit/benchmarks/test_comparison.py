"""Comparison of benchmark results with the committed record."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.bars import BARS, Bar
from benchmarks.comparison import RECORD, Record, compare, machine, shorten, write_lines
from benchmarks.harness import Measured, Result, Verdict, judge
from benchmarks.report import Conditions, row_of, write_record

SMALL = Bar("X1", "something", "something else", bar=15, moonshot=4)
LARGE = Bar("X2", "something", "something else", bar=50, moonshot=90, unit="%", at_least=True)
SECONDS = Bar("X3", "something", "seconds", bar=15, moonshot=4, unit="s")


def result(bar: Bar, value: float, spread: tuple[float, float] | None = None) -> Result:
    return judge(bar, Measured(value, {"candidate": [value]}, spread=spread))


def compared(one: Result, recorded: float, *, here: bool = True) -> Result:
    measured_on = machine() if here else {"cores": 1024}
    return compare([one], Record(machine=measured_on, values={one.bar.id: recorded}))[0]


@pytest.mark.parametrize(
    ("bar", "value", "recorded", "verdict"),
    [
        (SMALL, 6.0, 4.0, Verdict.MET),
        (SMALL, 6.1, 4.0, Verdict.SLOWER),
        (SMALL, 2.0, 4.0, Verdict.MET),
        (SMALL, 16.0, 4.0, Verdict.MISSED),
        (LARGE, 60.0, 90.0, Verdict.MET),
        (LARGE, 59.0, 90.0, Verdict.SLOWER),
        (LARGE, 99.0, 50.0, Verdict.MET),
    ],
)
def test_a_value_worse_than_the_record_beyond_noise_is_slower(
    bar: Bar, value: float, recorded: float, verdict: Verdict
) -> None:
    assert compared(result(bar, value), recorded).verdict is verdict


def test_a_wide_spread_is_judged_by_its_better_end() -> None:
    assert compared(result(SMALL, 9.0, spread=(5.0, 12.0)), 4.0).verdict is Verdict.MET
    assert compared(result(LARGE, 55.0, spread=(50.0, 61.0)), 90.0).verdict is Verdict.MET


def test_seconds_of_another_machine_are_not_compared_but_ratios_are() -> None:
    assert compared(result(SECONDS, 14.0), 1.0, here=False).recorded is None
    assert compared(result(SECONDS, 14.0), 1.0).verdict is Verdict.SLOWER
    assert compared(result(SMALL, 14.0), 1.0, here=False).verdict is Verdict.SLOWER


def test_smoke_tests_and_benchmarks_without_a_record_are_not_compared(tmp_path: Path) -> None:
    quick = judge(SMALL, Measured(14.0, {"candidate": [14.0]}), quick=True)
    assert compared(quick, 1.0).verdict is Verdict.QUICK
    assert compare([result(SMALL, 14.0)], Record.read(tmp_path / "none.json")) == [result(SMALL, 14.0)]


def test_the_table_shows_the_recorded_value() -> None:
    assert "4×" in row_of(compared(result(SMALL, 6.1), 4.0))


def test_a_written_record_can_be_compared_with_and_has_one_line_per_result(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    not_run = Result(BARS["B2"], Verdict.NOT_RUN, reason="absent")
    conditions = Conditions(
        quick=False, started_at=datetime(2031, 1, 1, tzinfo=UTC), load_before=(0, 0, 0), versions={}
    )

    write_record(path, [result(BARS["B1"], 3.0), not_run], conditions)

    assert Record.read(path) == Record(machine=machine(), values={"B1": 3.0})
    lines = [line for line in path.read_text().splitlines() if '"id"' in line]
    assert [json.loads(line.strip().rstrip(","))["id"] for line in lines] == ["B1", "B2"]


def test_the_committed_record_names_known_benchmarks_and_met_bars() -> None:
    recorded = Record.read(RECORD)

    assert recorded.values
    for id_, value in recorded.values.items():
        assert BARS[id_].meets(value), id_


def test_the_committed_record_is_a_shortened_one() -> None:
    text = RECORD.read_text()

    assert write_lines(shorten(json.loads(text))) == text


def test_a_shortened_record_has_no_samples_and_no_missed_bars(tmp_path: Path) -> None:
    conditions = Conditions(
        quick=False, started_at=datetime(2031, 1, 1, tzinfo=UTC), load_before=(0, 0, 0), versions={}
    )
    write_record(tmp_path / "all.json", [result(BARS["B1"], 3.0), result(BARS["B6"], 1.0)], conditions)

    (kept,) = shorten(json.loads((tmp_path / "all.json").read_text()))["results"]

    assert (kept["id"], kept["value"], "samples" in kept) == ("B1", 3.0, False)
