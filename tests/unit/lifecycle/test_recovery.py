"""Recovery decides by groups and never fails a request; a broken group continues where it can."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags_app.failures.clusters import ABORTS, FailedJob, RoundFailures
from dags_app.failures.recovery import (
    Blame,
    BrokenGroup,
    Hold,
    Rescue,
    decide_recovery,
    decide_repair,
    headline,
)

A, B, C = "T2_CH_CERN", "T2_DE_DESY", "T1_US_FNAL"
F1, F2, F3 = "/store/data/1.root", "/store/data/2.root", "/store/data/3.root"


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
    result = decision.evidence
    assert (result["failure_ratio"], result["failed_groups"], result["rescues"]) == (
        0.5, ["mg_000000", "mg_000001"], 1,
    )  # fmt: skip
    assert result["bad_files"] == [{"lfn": F1, "sites": [A]}]
    assert {"category": "data", "site": A, "exit_code": 8021, "jobs": 1} in result["counts"]
    assert "the end" in {sample["log_tail"] for sample in result["samples"]}
    assert "2 of 4 groups failed" in decision.reason


@pytest.mark.parametrize(
    ("lost", "rescues", "message"),
    [
        (1, 0, "1 of 1 groups failed (100%), the limit is 20%"),
        (0, 3, "0 of 1 groups failed (0%) after 3 rescues"),
    ],
)
def test_the_headline_of_a_hold_names_the_commonest_cause(lost: int, rescues: int, message: str) -> None:
    twice = [failed(node, site=B, exit_code=60307, message="no\n space " + "left " * 99) for node in "ab"]
    decision = decide_recovery(
        failures=failures(1, lost, failed(), *twice), rescues=rescues, hold_threshold=0.2, max_rescues=3
    )
    assert decision.reason.startswith(f"{message}; most often 60307 at {B}: no space left left ")
    assert len(decision.reason) < 240


def test_without_records_the_headline_names_no_cause() -> None:
    assert headline("it failed", failures(1, 1)) == "it failed"
    assert headline("it failed", failures(1, 1, failed(site="", message=""))) == "it failed; most often 8021"


def test_a_failure_of_every_node_is_held_at_once_with_the_proof() -> None:
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


def corrupt(*places: str, held_by: frozenset[str] = frozenset()) -> Blame:
    """Return a file whose copy proved corrupt at these places."""
    return Blame(sites(*places), corrupt=sites(*places), holders=held_by or sites(*places))


def unopened(*places: str) -> Blame:
    """Return a file that could not be opened at these places, which hold its only copies."""
    return Blame(sites(*places), corrupt=frozenset(), holders=sites(*places))


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
    blamed = {F1: corrupt(A, held_by=sites(A, B))}
    repair = decide_repair(group(files={F1: sites(A, B), F2: sites(A, B)}, bad=blamed))
    assert (repair.restart, repair.sites, repair.dropped) == (True, sites(B), frozenset())


def test_a_file_corrupt_everywhere_is_excluded_by_name_and_the_rest_continues() -> None:
    repair = decide_repair(group(files={F1: sites(A, B), F2: sites(A)}, bad={F1: corrupt(A, B)}))
    assert list(repair.excluded) == [F1]
    assert f"could not be read at {A}, {B}" in repair.excluded[F1]
    assert (repair.restart, repair.sites, repair.emptied) == (False, sites(A), False)


@pytest.mark.parametrize(
    "blame",
    [
        unopened(A),
        corrupt(A, held_by=sites(A, "T2_IT_Pisa")),
        Blame(sites(A, B), corrupt=sites(A), holders=sites(A, B)),
    ],
    ids=["its storage is down", "a site out of use has another copy", "its other copy cannot be reached"],
)
def test_a_file_of_which_a_good_copy_may_be_left_is_only_set_aside(blame: Blame) -> None:
    repair = decide_repair(group(files={F1: sites(A), F2: sites(A)}, bad={F1: blame}))
    assert (repair.set_aside, dict(repair.excluded)) == ((F1,), {})
    assert (repair.restart, repair.sites) == (False, sites(A))
    assert decide_repair(group(files={F1: sites(A)}, bad={F1: blame})).emptied


def test_a_file_whose_group_cannot_follow_waits_for_a_round_of_its_own() -> None:
    blamed = {F1: corrupt(A, held_by=sites(A, B))}
    repair = decide_repair(group(files={F1: sites(A, B), F2: sites(A)}, bad=blamed))
    assert (repair.set_aside, dict(repair.excluded), repair.restart) == ((F1,), {}, False)


def test_of_two_bad_copies_only_the_one_at_the_groups_site_is_set_aside() -> None:
    both = sites(A, B)
    blamed = {F1: corrupt(B, held_by=both), F3: corrupt(A, held_by=both)}
    repair = decide_repair(
        group(files=dict.fromkeys((F1, F2, F3), both), bad=blamed, read=frozenset({F1, F2}))
    )
    assert (repair.set_aside, repair.restart, repair.sites) == ((F3,), False, sites(A))


def test_a_group_begins_anew_when_a_file_leaves_it_that_was_read_in_part() -> None:
    repair = decide_repair(
        group(
            files={F1: sites(A, B), F2: sites(A)},
            fitting=sites(A),
            bad={F1: corrupt(A, held_by=sites(A, B))},
            read=frozenset({F1, F2}),
        )
    )
    assert (repair.set_aside, repair.restart, repair.sites) == ((F1,), True, sites(A))


def test_a_file_that_other_groups_read_too_is_not_set_aside() -> None:
    blamed = {F1: corrupt(A, held_by=sites(A, B))}
    repair = decide_repair(group(files={F1: sites(A, B), F2: sites(A)}, bad=blamed, shared=frozenset({F1})))
    assert repair.set_aside == ()
    assert repair.homeless


def test_a_group_without_input_is_removed() -> None:
    repair = decide_repair(group(files={F1: sites(A)}, bad={F1: corrupt(A)}))
    assert (repair.emptied, repair.homeless) == (True, False)
    assert decide_repair(group(gone=frozenset({F1}))).emptied


def test_a_merge_that_lost_its_inputs_restarts_its_group_where_it_was() -> None:
    repair = decide_repair(group(files={F1: sites(A)}, lost_inputs=True))
    assert (repair.restart, repair.sites) == (True, sites(A))


@pytest.mark.parametrize("files", [{}, {F1: frozenset()}, {F1: sites(A), F2: sites(B)}])
def test_work_without_a_site_is_reported(files: dict[str, frozenset[str]]) -> None:
    fitting = sites() if not files else sites(A, B)
    assert decide_repair(group(files=files, fitting=fitting)).homeless


PLACES = st.frozensets(st.sampled_from([A, B, C]))
LFNS = st.sampled_from([f"/store/data/{n}.root" for n in range(5)])
BLAMES = st.builds(
    lambda bad, corrupt, holders: Blame(bad, corrupt & bad, holders | bad),
    PLACES.filter(bool),
    PLACES,
    PLACES,
)


@given(
    files=st.dictionaries(LFNS, PLACES, max_size=5),
    blames=st.dictionaries(LFNS, BLAMES, max_size=5),
    fitting=PLACES,
    elected=st.sampled_from(["", A, B, C]),
    read=st.frozensets(LFNS),
    lost=st.booleans(),
)
def test_no_file_is_lost_read_twice_or_sent_to_a_site_that_cannot_read_it(
    files: dict[str, frozenset[str]],
    blames: dict[str, Blame],
    fitting: frozenset[str],
    elected: str,
    read: frozenset[str],
    lost: bool,
) -> None:
    bad = {lfn: blame for lfn, blame in blames.items() if lfn in files}
    repair = decide_repair(
        BrokenGroup("mg_000000", fitting, elected=elected, files=files, bad=bad, read=read, lost_inputs=lost)
    )
    kept = set(files) - repair.dropped
    assert repair.dropped <= set(bad), "only what was blamed is done without"
    assert repair.emptied is (bool(files) and not kept)
    for lfn in kept:
        assert repair.sites <= files[lfn] - (bad[lfn].sites if lfn in bad else frozenset())
    assert repair.sites <= fitting
    if elected and elected not in repair.sites and not repair.emptied:
        assert repair.restart
    if not repair.emptied and read & set(repair.set_aside):
        assert repair.restart, "what was read of it would be merged, and read again by a later round"
    for lfn in repair.excluded:
        assert bad[lfn].holders <= bad[lfn].corrupt, "a good copy may be left"
