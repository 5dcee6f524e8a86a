"""What a failure means and whether to try again."""

from __future__ import annotations

import pytest

from sandbox.classify import classify, code_without_report, exit_codes

NEVER_RETRIED = {70, 73, 8001, 8006, 8009, 8023, 8026, 8501, 50664, 71102, 71104, 71105}


def test_every_row_of_the_table_is_one_of_four_categories() -> None:
    table = exit_codes()

    assert len(table) >= 90
    assert {row.category for row in table.values()} == {"transient", "permanent", "data", "infrastructure"}
    assert all(row.reason and row.advice for row in table.values())


@pytest.mark.parametrize(
    ("code", "attempt", "category", "retryable"),
    [
        (8020, 0, "data", False),
        (8021, 0, "data", False),
        (8022, 0, "data", False),
        (8001, 0, "permanent", False),
        (7002, 0, "permanent", False),
        (60307, 0, "infrastructure", True),
        (60321, 3, "infrastructure", True),
        (60322, 0, "permanent", False),
        (50660, 0, "permanent", True),
        (8031, 2, "permanent", True),
        (8004, 2, "transient", True),
        (50664, 0, "permanent", False),
        (50662, 0, "permanent", False),
        (137, 1, "infrastructure", True),
        (143, 1, "infrastructure", True),
        (139, 0, "permanent", True),
        (139, 1, "permanent", False),
        (99109, 0, "transient", True),
        (99109, 1, "transient", False),
        (99303, 2, "infrastructure", True),
        (130, 0, "infrastructure", True),
        (77777, 2, "transient", True),
    ],
)
def test_the_table_decides(code: int, attempt: int, category: str, retryable: bool) -> None:
    found = classify(code, attempt=attempt)

    assert (found.category, found.retryable) == (category, retryable)
    assert found.reason


@pytest.mark.parametrize("code", sorted(NEVER_RETRIED))
def test_what_never_helps_is_never_retried(code: int) -> None:
    assert classify(code).retryable is False


def test_memory_kills_are_retried_with_more_memory() -> None:
    assert all(classify(code).wants_memory for code in (50660, 50661, 8004, 8030, 8031, 137))
    assert not classify(60307).wants_memory


def test_only_what_breaks_every_node_aborts() -> None:
    aborting = {code for code in exit_codes() if classify(code).aborts_dag}

    assert aborting == {7000, 7001, 7002, 71104, 71105}


def test_a_very_long_failure_is_not_repeated() -> None:
    found = classify(60307, wall_time_sec=120_001)

    assert found.retryable is False
    assert "too long" in found.reason


def test_only_data_failures_blame_files() -> None:
    assert classify(8021, bad_inputs=["/store/a.root"]).bad_input_files == ("/store/a.root",)
    assert classify(60307, bad_inputs=["/store/a.root"]).bad_input_files == ()


@pytest.mark.parametrize(
    ("return_value", "hold_reason", "code"),
    [
        (85, "", 99303),
        (0, "", 99303),
        (-9, "", 137),
        (-15, "", 143),
        (-1001, "", 50666),
        (-1002, "", 99400),
        (-1002, "Job has gone over cgroup memory limit of 128 megabytes.", 50660),
        (-1002, "Disk usage exceeded request_disk", 50662),
        (-1002, "The job exceeded allowed job duration of 10", 50664),
        (-1002, "Transfer input files failure", 99400),
    ],
)
def test_without_a_report_signal_and_hold_reason_speak(
    return_value: int, hold_reason: str, code: int
) -> None:
    assert code_without_report(return_value, hold_reason) == code
