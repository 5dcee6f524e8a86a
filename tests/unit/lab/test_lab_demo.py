"""The demonstration's decisions and its summary."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from lab.demo.display import Display, print_table
from lab.demo.outputs import Merged
from lab.demo.run import demo
from lab.demo.summary import build_summary, explain_delay, explain_loss, is_finished, parse_view
from lab.errors import LabError
from lab.paths import Layout

PROGRESS = {
    "fraction": 0.5,
    "events_total": 800,
    "events_done": 400,
    "groups_total": 2,
    "groups_done": 1,
    "jobs_total": 8,
    "files": 3,
    "blocks": 2,
    "blocks_announced": 1,
}


def change(to: str, second: int, reason: str = "because") -> dict[str, Any]:
    at = f"2026-01-01T00:00:{second:02}.000000Z"
    return {"from_status": "x", "to_status": to, "reason": reason, "actor": "system:sweep", "at": at}


def view(status: str, *changes: dict[str, Any], **more: Any) -> Any:
    body = {"request_name": "demo_1", "status": status, "progress": PROGRESS, **more}
    return parse_view(body, changes)


def test_it_is_over_when_all_have_completed_and_not_before_any_was_seen() -> None:
    assert is_finished([view("completed"), view("completed")])
    assert not is_finished([view("completed"), view("active")])
    assert not is_finished([])


@pytest.mark.parametrize("status", ["held", "failed", "aborted"])
def test_a_lost_request_is_named_with_its_reason(status: str) -> None:
    lost = view(status, change(status, 1, "Rucio says no"))

    assert explain_loss([view("active"), lost]) == f"request demo_1 is {status}: Rucio says no"


def test_the_recorded_error_has_more_detail_than_the_transition() -> None:
    lost = view("held", change("held", 1, "10 errors"), last_error="DBS answered 400: bad block")

    assert "DBS answered 400" in str(explain_loss([lost]))


@pytest.mark.parametrize("status", ["new", "queued", "pilot_running", "active", "partial", "completed"])
def test_a_request_under_way_is_no_loss(status: str) -> None:
    assert explain_loss([view(status)]) is None


def test_a_delay_names_the_request_and_its_reason() -> None:
    text = explain_delay(
        [view("completed"), view("queued", wait_reason="admission is closed")], limit_sec=600
    )

    assert text == "not everything completed within 600 s: demo_1 is queued (admission is closed)"


def test_summary_passes_the_counts_of_the_api_through() -> None:
    done = view("completed", change("submitted", 1), change("completed", 31))

    summary = build_summary([done], urls={"console": "http://c"}, wall_time_sec=40.04)

    assert summary["ok"] is True
    assert "error" not in summary
    assert summary["wall_time_sec"] == 40.0
    assert summary["urls"] == {"console": "http://c"}
    result = summary["requests"][0]
    transitions = result.pop("transitions")
    assert [t["to_status"] for t in transitions] == ["submitted", "completed"]
    assert result == {
        "request_name": "demo_1",
        "status": "completed",
        "groups": 2,
        "groups_done": 1,
        "jobs": 8,
        "files": 3,
        "blocks": 2,
        "blocks_announced": 1,
        "events_in": 800,
        "events_accounted": 400,
        "wall_time_sec": 30.0,
    }


def test_summary_shows_the_content_of_the_merged_files() -> None:
    merged = {"demo_1": Merged(390, 91.234)}
    summary = build_summary([view("completed")], urls={}, wall_time_sec=1, merged=merged)

    shown = summary["requests"][0]
    assert (shown["merged_events"], shown["z_peak_gev"]) == (390, 91.23)


def test_summary_of_a_failure_is_not_ok_and_has_the_reason() -> None:
    summary = build_summary([view("held")], urls={}, wall_time_sec=1, error="request demo_1 is held")

    assert summary["ok"] is False
    assert summary["error"] == "request demo_1 is held"


def test_every_status_change_is_printed_once() -> None:
    out = io.StringIO()
    first, second = change("queued", 1), change("active", 2, "[odd] reason")

    with Display(Console(file=out, width=200)) as display:
        display.show([view("queued", first)])
        display.show([view("active", first, second)])

    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert "queued" in lines[0]
    assert "active  [odd] reason" in lines[1]


def test_table_shows_the_statuses_of_the_requests() -> None:
    out = io.StringIO()

    done = [view("completed", change("a", 1), change("b", 8))]
    print_table(Console(file=out, width=140), done, {"demo_1": Merged(390, 91.234)})

    row = next(line for line in out.getvalue().splitlines() if "demo_1" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "demo_1",
        "1/2",
        "8",
        "3",
        "1/2",
        "400/800",
        "390",
        "91.23 GeV",
        "7.0 s",
    ]


def test_an_unknown_option_is_refused(layout: Layout) -> None:
    with pytest.raises(LabError, match="--kepe") as refused:
        demo(layout, ["--kepe"])

    assert refused.value.exit_code == 2
