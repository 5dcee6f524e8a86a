"""Level 2 decides by groups, and never fails a request; a broken group goes on where it can."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags_app.failures import ABORTS, FailedJob, RoundFailures
from dags_app.recovery import BrokenGroup, Hold, Rescue, decide_recovery, decide_repair

A, B, C = "T2_CH_CERN", "T2_DE_DESY", "T1_US_FNAL"
F1, F2 = "/store/data/1.root", "/store/data/2.root"


def failures(groups: int, failed: int, *jobs: FailedJob) -> RoundFailures:
    return RoundFailures(groups=groups, failed_groups=tuple(f"mg_{n:06d}" for n in range(failed)), jobs=jobs)


def failed(node: str = "proc_000001", **values: Any) -> FailedJob:
    return FailedJob(
        "mg_000001", node, **({"site": A, "category": "data", "exit_code": 8021, "message": "no"} | values)
    )


def sites(*names: str) -> frozenset[str]:
    return frozenset(names)


@pytest.mark.parametrize(
    ("lost", "rescues", "rescued"),
    [
        (1, 0, True),
        (19, 0, True),
        (19, 2, True),
        (19, 3, False),
        (20, 0, False),
        (100, 0, False),
        (0, 0, True),
    ],
)
def test_few_failures_are_rescued_until_rescues_run_out(lost: int, rescues: int, rescued: bool) -> None:
    decision = decide_recovery(
        failures=failures(100, lost), rescues=rescues, hold_threshold=0.20, max_rescues=3
    )
    assert isinstance(decision, Rescue if rescued else Hold)


@pytest.mark.parametrize(("threshold", "rescued"), [(0.10, False), (0.30, True), (1.0, True)])
def test_the_threshold_of_the_request_wins(threshold: float, rescued: bool) -> None:
    decision = decide_recovery(failures=failures(4, 1), rescues=0, hold_threshold=threshold, max_rescues=3)
    assert isinstance(decision, Rescue) is (threshold > 0.25) is rescued


def test_a_hold_carries_its_evidence() -> None:
    found = failures(
        4, 2, failed(bad_files=(F1,), log_tail="the end"), failed("proc_000002", exit_code=60307)
    )
    decision = decide_recovery(failures=found, rescues=1, hold_threshold=0.20, max_rescues=3)
    assert isinstance(decision, Hold)
    told = decision.evidence
    assert (told["failure_ratio"], told["failed_groups"], told["rescues"]) == (
        0.5, ["mg_000000", "mg_000001"], 1,
    )  # fmt: skip
    assert told["bad_files"] == [{"lfn": F1, "sites": [A]}]
    assert {"category": "data", "site": A, "exit_code": 8021, "jobs": 1} in told["counts"]
    assert "the end" in {sample["log_tail"] for sample in told["samples"]}
    assert "2 of 4 groups failed" in decision.reason


def test_what_concerns_every_node_is_held_at_once_with_the_proof() -> None:
    found = failures(100, 1, failed(action=ABORTS, exit_code=71104, reason="job pickle missing", message="x"))
    decision = decide_recovery(failures=found, rescues=0, hold_threshold=0.20, max_rescues=3)
    assert isinstance(decision, Hold)
    assert "aborted: mg_000001/proc_000001: 71104 job pickle missing" in decision.reason
    assert decision.evidence["proof"]


def test_a_round_without_groups_is_held() -> None:
    assert isinstance(
        decide_recovery(failures=failures(0, 0), rescues=0, hold_threshold=0.2, max_rescues=3), Hold
    )


def group(**values: Any) -> BrokenGroup:
    return BrokenGroup("mg_000001", **({"fitting": sites(A, B, C), "elected": A} | values))


def test_a_group_stays_where_it_is_as_long_as_it_may() -> None:
    repair = decide_repair(group(files={F1: sites(A, B)}))
    assert (repair.restart, repair.sites, repair.dropped) == (False, sites(A, B), frozenset())


@pytest.mark.parametrize("files", [{}, {F1: sites(B)}, {F1: sites(B, C), F2: sites(B)}])
def test_a_group_begins_anew_elsewhere_when_its_site_is_out(files: dict[str, frozenset[str]]) -> None:
    repair = decide_repair(group(files=files, fitting=sites(B)))
    assert (repair.restart, repair.sites) == (True, sites(B))


def test_a_group_that_never_landed_just_gets_other_sites() -> None:
    repair = decide_repair(group(elected="", files={F1: sites(B)}))
    assert (repair.restart, repair.sites) == (False, sites(B))


def test_a_group_follows_a_file_to_its_other_copy() -> None:
    repair = decide_repair(group(files={F1: sites(A, B), F2: sites(A, B)}, bad={F1: sites(A)}))
    assert (repair.restart, repair.sites, repair.dropped) == (True, sites(B), frozenset())


def test_a_file_nobody_can_read_is_excluded_by_name_and_the_rest_goes_on() -> None:
    repair = decide_repair(group(files={F1: sites(A, B), F2: sites(A)}, bad={F1: sites(A, B)}))
    assert list(repair.excluded) == [F1]
    assert f"could not be read at {A}, {B}" in repair.excluded[F1]
    assert (repair.restart, repair.sites, repair.emptied) == (False, sites(A), False)


def test_a_file_whose_group_cannot_follow_waits_for_a_round_of_its_own() -> None:
    repair = decide_repair(group(files={F1: sites(A, B), F2: sites(A)}, bad={F1: sites(A)}))
    assert (repair.set_aside, dict(repair.excluded), repair.restart) == ((F1,), {}, False)


def test_a_file_that_other_groups_read_too_is_not_set_aside() -> None:
    repair = decide_repair(
        group(files={F1: sites(A, B), F2: sites(A)}, bad={F1: sites(A)}, shared=frozenset({F1}))
    )
    assert repair.set_aside == ()
    assert repair.homeless


def test_a_group_left_without_input_is_done_away_with() -> None:
    repair = decide_repair(group(files={F1: sites(A)}, bad={F1: sites(A)}))
    assert (repair.emptied, repair.homeless) == (True, False)
    assert decide_repair(group(gone=frozenset({F1}))).emptied


def test_a_merge_that_lost_its_inputs_restarts_its_group_where_it_was() -> None:
    repair = decide_repair(group(files={F1: sites(A)}, lost_inputs=True))
    assert (repair.restart, repair.sites) == (True, sites(A))


@pytest.mark.parametrize("files", [{}, {F1: frozenset()}, {F1: sites(A), F2: sites(B)}])
def test_work_without_a_site_is_told(files: dict[str, frozenset[str]]) -> None:
    fitting = sites() if not files else sites(A, B)
    assert decide_repair(group(files=files, fitting=fitting)).homeless


PLACES = st.frozensets(st.sampled_from([A, B, C]))
FILES = st.dictionaries(st.sampled_from([f"/store/data/{n}.root" for n in range(5)]), PLACES, max_size=5)


@given(files=FILES, bad=FILES, fitting=PLACES, elected=st.sampled_from(["", A, B, C]), lost=st.booleans())
def test_whatever_broke_no_file_is_forgotten_or_sent_where_it_cannot_be_read(
    files: dict[str, frozenset[str]],
    bad: dict[str, frozenset[str]],
    fitting: frozenset[str],
    elected: str,
    lost: bool,
) -> None:
    blamed = {lfn: places for lfn, places in bad.items() if lfn in files and places}
    repair = decide_repair(
        BrokenGroup("mg_000000", fitting, elected=elected, files=files, bad=blamed, lost_inputs=lost)
    )
    kept = set(files) - repair.dropped
    assert repair.dropped <= set(blamed), "only what was blamed is done without"
    assert repair.emptied is (bool(files) and not kept)
    for lfn in kept:
        assert repair.sites <= files[lfn] - blamed.get(lfn, frozenset())
    assert repair.sites <= fitting
    if elected and elected not in repair.sites and not repair.emptied:
        assert repair.restart
