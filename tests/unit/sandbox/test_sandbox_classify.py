"""Classification of failures, and whether to retry."""

from __future__ import annotations

import pytest

from sandbox.classify import classify, code_without_report
from sandbox.exitcodes import exit_codes, fault_of
from sandbox.limits import UNKNOWN_LIMITS, Limit, Limits, Resource
from sandbox.userlog import JobEvents

NEVER_RETRIED = {70, 73, 8001, 8006, 8009, 8023, 8026, 8501, 50664, 71102, 71104, 71105}

# Codes of the table by the number of their retries; all others are not retried.
RETRIED = {
    1, 9, 15, 50, 71, 72, 74, 81, 126, 127, 132, 135, 137, 143, 147, 151, 195, 243, 8004, 8030, 8031, 8033,
    9000, 10031, 10034, 11003, 11005, 50513, 50660, 50661, 50665, 50666, 60307, 60311, 60315, 60317, 60321,
    60403, 71103, 99108, 99303, 99311, 99312, 99313, 99400, 99401, 99996,
}  # fmt: skip
RETRIED_ONCE = {
    8, 11, 65, 134, 139, 8002, 8015, 10040, 50110, 50115, 50669, 60302, 60324, 60450, 60451, 99109,
}  # fmt: skip


def test_every_code_of_the_table_is_tried_again_as_often_as_it_deserves() -> None:
    answers = {code: tuple(classify(code, attempt=n).retryable for n in (0, 1, 2)) for code in exit_codes()}

    assert {code for code, tries in answers.items() if all(tries)} == RETRIED
    assert {code for code, tries in answers.items() if tries == (True, False, False)} == RETRIED_ONCE
    assert all(set(answers[code]) == {False} for code in answers.keys() - RETRIED - RETRIED_ONCE)


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (8001, "user"), (7002, "user"), (50660, "user"), (99310, "user"), (8020, "data"), (8021, "data"),
        (8022, "data"), (60307, "site"),
        (60321, "site"), (60322, "site"), (60323, "site"), (11003, "site"), (60315, "wms2"), (71105, "wms2"),
        (99311, "wms2"),
    ],
)  # fmt: skip
def test_a_failure_is_the_fault_of_the_user_the_site_the_data_or_wms2(code: int, fault: str) -> None:
    assert fault_of(code).value == fault


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


def limits(resource: Resource, requested: int, ceiling: int) -> Limits:
    return {**UNKNOWN_LIMITS, resource: Limit(resource, requested, ceiling)}


@pytest.mark.parametrize("code", sorted(NEVER_RETRIED))
def test_permanent_failures_are_never_retried(code: int) -> None:
    assert classify(code).retryable is False


@pytest.mark.parametrize(
    ("code", "used_mb", "requested_mb", "ceiling_mb", "next_mb"),
    [
        (50660, 0, 1000, 3000, 1500),
        (50661, 0, 1000, 3000, 1500),
        (8004, 0, 1001, 3000, 1502),
        (8030, 0, 1500, 3000, 2250),
        (8031, 0, 2250, 3000, 3000),
        (137, 900, 1000, 3000, 1500),
        (137, 100, 1000, 3000, None),
        (60307, 999, 1000, 3000, None),
        (50664, 999, 1000, 3000, None),
        (50660, 0, 0, 0, None),
    ],
)
def test_only_nodes_that_ran_out_of_memory_get_half_as_much_again(
    code: int, used_mb: int, requested_mb: int, ceiling_mb: int, next_mb: int | None
) -> None:
    found = classify(code, used_mb=used_mb, limits=limits(Resource.MEMORY, requested_mb, ceiling_mb))

    assert (found.raised and found.raised.next) == next_mb
    assert found.retryable is (code != 50664)


@pytest.mark.parametrize("code", [50660, 8004, 8031])
def test_beyond_the_ceiling_there_is_no_further_attempt(code: int) -> None:
    found = classify(code, limits=limits(Resource.MEMORY, 3000, 3000))

    assert (found.retryable, found.raised) == (False, None)
    assert "needs more than the ceiling of 3000 MB" in found.reason


@pytest.mark.parametrize(("code", "resource"), [(50664, Resource.WALL_TIME), (50662, Resource.DISK)])
@pytest.mark.parametrize(
    ("requested", "by_pool", "more"),
    [(100, True, 200), (200, True, 350), (350, True, None), (0, True, None), (100, False, None)],
    ids=["twice as much", "up to the ceiling", "not beyond it", "not known", "the job's own limit"],
)
def test_nodes_stopped_for_time_or_disk_get_twice_as_much(
    code: int, resource: Resource, requested: int, by_pool: bool, more: int | None
) -> None:
    found = classify(code, limits=limits(resource, requested, 350), by_pool=by_pool)

    assert (found.raised and found.raised.next) == more
    assert found.retryable is (more is not None)


def test_a_very_long_failure_is_not_repeated() -> None:
    found = classify(60307, wall_time_sec=120_001)

    assert found.retryable is False
    assert "too long" in found.reason


def test_only_data_failures_blame_files() -> None:
    assert classify(8021, bad_inputs=["/store/a.root"]).bad_input_files == ("/store/a.root",)
    assert classify(60307, bad_inputs=["/store/a.root"]).bad_input_files == ()


@pytest.mark.parametrize(
    ("return_value", "code"),
    [
        (85, 99303),
        (0, 99303),
        (-9, 137),
        (-15, 143),
        (-64, 192),
        (-1001, 50666),
        (-1002, 99400),
        (-500, 99303),
    ],
)
def test_without_a_report_the_signal_counts_and_an_exit_status_does_not(return_value: int, code: int) -> None:
    assert code_without_report(return_value) == code


@pytest.mark.parametrize(
    ("hold_code", "reason", "code"),
    [
        (34, "Error from slot1_1@n: Job has gone over cgroup memory limit of 128 megabytes.", 50660),
        (26, "memory usage 300 MB exceeded request_memory 100 MB", 50660),
        (34, "Job has gone over disk limit of 100 megabytes", 50662),
        (3, "Disk usage exceeded request_disk", 50662),
        (46, "The job exceeded allowed job duration of 0+00:01:00", 50664),
        (47, "The job exceeded allowed execute duration of 0+00:01:00", 50664),
        (0, "The job exceeded allowed job duration of 10", 50664),
        (
            13,
            "Transfer input files failure: reading /disk1/memory/jobs.json: No such file",
            99400,
        ),
        (12, "Transfer output files failure at execution point: back/ does not exist", 99400),
        (26, "The system macro SYSTEM_PERIODIC_HOLD expression evaluated to TRUE", 99400),
        (1, "via condor_hold (by user ana)", 99400),
    ],
)
def test_a_hold_is_classified_by_its_code_then_its_words(hold_code: int, reason: str, code: int) -> None:
    assert code_without_report(-1002, JobEvents(hold_reason=reason, hold_code=hold_code)) == code


def test_a_pool_that_removes_at_once_is_understood_too() -> None:
    removed = JobEvents(removal_reason="SYSTEM_PERIODIC_REMOVE: ResidentSetSize over Memory")

    assert code_without_report(-1002, removed) == 50660
    assert code_without_report(5, removed) == 99303


def test_a_job_removed_because_it_hung_is_tried_again() -> None:
    reason = "hanging job: has run for 95 min, where 95% of the finished jobs took at most 10 min"
    code = code_without_report(-1002, JobEvents(removal_reason=f"{reason} (by user wms2)"))

    assert (code, classify(code).category, classify(code).retryable) == (50665, "infrastructure", True)
