"""`wms2 watch`: its output, its end, and outages of the server."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from wms2_cli.errors import UNREACHABLE, CliError
from wms2_cli.output import Format, large
from wms2_cli.watch import describe, watch

NODES = {"total": 20, "completed": 6, "running": 0, "idle": 0, "held": 0, "waiting": 14, "failed": 0}
DOWN = CliError("https://wms2 does not answer: refused", cure="Check the URL", exit_code=UNREACHABLE)


def request(status: str, *, nodes: dict[str, int] | None = None, **members: Any) -> dict[str, Any]:
    """Build a request as the API returns it, with its progress in `detail`."""
    progress = {
        "fraction": 0.5, "events_done": 500_000, "events_total": 1_000_000, "groups_done": 1,
        "groups_total": 2, "estimated_completion": None,
    }  # fmt: skip
    row = {
        "request_name": "first",
        "status": status,
        "progress": progress,
        "wait_reason": "",
        "last_error": "",
    }
    return {**row, **members, "detail": {"nodes": {**NODES, **(nodes or {})}}}


class Scripted:
    """An API that returns the next answer at each call."""

    def __init__(self, answers: Iterable[dict[str, Any] | CliError]) -> None:
        self._answers = iter(answers)
        self._row: dict[str, Any] = {}

    def get(self, path: str) -> Any:
        if path.endswith("/progress"):
            return self._row["detail"]
        answer = next(self._answers)
        if isinstance(answer, CliError):
            raise answer
        self._row = answer
        return {name: value for name, value in answer.items() if name != "detail"}


def run(*answers: dict[str, Any] | CliError, form: Format = Format.TSV, until_held: bool = False) -> None:
    context: Any = SimpleNamespace(obj=SimpleNamespace(api=Scripted(answers), form=form))
    watch(context, ["first", "first"], interval=0.0, until_held=until_held)


def test_jobs_are_shown_by_state_and_absent_states_left_out() -> None:
    row = request("active", nodes={"running": 3, "idle": 4, "held": 1}, wait_reason="a\tsite\nis full")
    assert describe(row) == "500k/1M events · 1/2 groups · 3 running, 4 idle, 1 held · a�site is full"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (999_900, "1M"), (1_254_000, "1.25M"), (3e12, "3T")]
)
def test_large_numbers_have_three_digits(number: float, text: str) -> None:
    assert large(number) == text


def test_a_line_is_written_per_change(capsys: pytest.CaptureFixture[str]) -> None:
    run(request("queued"), request("queued"), request("active", nodes={"running": 2}), request("completed"))
    lines = [line.split("\t")[1:4] for line in capsys.readouterr().out.splitlines()]
    assert lines == [["first", status, "50.0 %"] for status in ("queued", "active", "completed")]


def test_an_outage_is_reported_once_and_does_not_end_watch(capsys: pytest.CaptureFixture[str]) -> None:
    run(request("active"), DOWN, DOWN, request("completed"))
    printed = capsys.readouterr()
    assert printed.err == "wms2: https://wms2 does not answer: refused; trying again\n"
    assert "completed" in printed.out


def test_a_server_that_never_answered_is_an_error() -> None:
    with pytest.raises(CliError, match="does not answer"):
        run(DOWN)


def test_a_revoked_token_ends_watch() -> None:
    with pytest.raises(CliError, match="unknown token"):
        run(request("active"), CliError("unknown token"))


@pytest.mark.parametrize(("status", "until_held"), [("failed", False), ("aborted", False), ("held", True)])
def test_the_exit_code_is_that_of_the_outcome(status: str, until_held: bool) -> None:
    with pytest.raises(CliError, match=f"not completed: first {status}") as raised:
        run(request("active"), request(status), until_held=until_held)
    assert raised.value.exit_code == 1


def test_a_held_request_does_not_end_watch(capsys: pytest.CaptureFixture[str]) -> None:
    run(request("held"), request("completed"))
    assert "\theld\t" in capsys.readouterr().out


@pytest.mark.parametrize(("form", "lines"), [(Format.JSON, 2), (Format.QUIET, 0)])
def test_json_is_one_body_per_change_and_quiet_nothing(
    form: Format, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run(request("active", nodes={"running": 1}), request("completed"), form=form)
    bodies = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [sorted(body) for body in bodies] == [["nodes"]] * lines


def test_bars_show_changes_of_status_and_outages(capsys: pytest.CaptureFixture[str]) -> None:
    run(request("queued"), DOWN, request("completed"), form=Format.TABLE)
    shown = capsys.readouterr().out
    assert "first: queued → completed" in shown
    assert "50.0 %" in shown
