"""Tables and facts on a terminal: they fit it, and the identifying column is not divided."""

from __future__ import annotations

from typing import Any

import pytest
from wms2_cli.output import Format, is_number, print_facts, print_rows, relative, time_until
from wms2_cli.reads import COLUMNS

NAME = "chiara_Phase2Fall30_GluGluHToZZTo4L_0070"
REASON = "53 % of the jobs failed, more than the limit of 20 %: StdException in module PFRecHit"
ROW: dict[str, Any] = {
    "request_name": NAME, "status": "pilot_running", "status_since": "2026-01-01T00:00:00Z", "priority": 7,
    "progress": {"fraction": 0.5, "groups_done": 1, "groups_total": 12}, "wait_reason": REASON,
    "last_error": "",
}  # fmt: skip


@pytest.mark.parametrize("columns", ["80", "200"])
def test_a_name_is_not_divided_in_a_table(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    print_rows([ROW, ROW | {"priority": 100_000}], COLUMNS, Format.TABLE, key="request_name")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["Request", NAME, NAME]
    assert all(len(line.rstrip()) <= int(columns) for line in lines)


def test_numbers_are_aligned_to_the_right(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    print_rows([ROW, ROW | {"priority": 100_000}], COLUMNS, Format.TABLE, key="request_name")
    _, small, large = capsys.readouterr().out.splitlines()
    assert small.index(" 7 ") + 2 == large.index(" 100000 ") + 7


def test_long_facts_are_wrapped_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    print_facts({"last error": REASON, "groups": "1 of 2"}, Format.TABLE, {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("last error  53 % of the jobs")
    assert all(len(line) <= 60 for line in lines)
    assert lines[1].startswith(" " * 12)
    assert " ".join(" ".join(lines[:-1]).split()) == f"last error {REASON}"


@pytest.mark.parametrize(
    ("text", "number"), [("", True), ("50.0 %", True), ("3/12", True), ("2.5 GB", False), ("held", False)]
)
def test_numbers_may_have_a_total_or_a_percent_sign(text: str, number: bool) -> None:
    assert is_number(text) is number


def test_times_are_relative_to_now() -> None:
    assert relative("2026-01-01T00:00:00Z").endswith(" ago")
    assert relative("2999-01-01T00:00:00Z").startswith("in ")
    assert relative(None) == ""
    assert time_until("2020-01-01T00:00:00Z") == "0s"
