"""Failures alike become one cluster, whoever's they are; a cluster suggests what may help."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags_app.failures import FailedJob, Remedy, RoundFailures, build_clusters, counts_of, normalise, suggest

CERN, DESY = "T2_CH_CERN", "T2_DE_DESY"


def job(number: int = 0, **values: Any) -> FailedJob:
    known = {
        "group": f"mg_{number // 4:06d}", "node": f"proc_{number:06d}", "site": CERN,
        "category": "infrastructure", "exit_code": 60307, "message": f"copy {number} failed",
    }  # fmt: skip
    return FailedJob(**(known | values))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("FileReadError: /store/data/a/1.root: bad", "FileReadError: /store/mc/b/c/22.root: bad"),
        ("job 17 took 3.5 s", "job 9 took 1200 s"),
        ("node wn01.cern.ch:1094 is gone", "node b9.desy.de is gone"),
        ("id 6f0b5c1e-6a35-4f0e-9d4b-6d5a1f0c2b77", "id 00000000-1111-2222-3333-444444444444"),
        ("checksum 0a1b2c3d where deadbee1 was", "checksum ffff0001 where 12ab34cd was"),
        ("the storage of T2_CH_CERN is not there", "the storage of T1_US_FNAL is not there"),
        ("root://eos.cern.ch//a/b?x=1 failed", "https://x.org/c failed"),
        ("at 10.1.2.3:80", "at 192.168.0.1"),
        ("a  b\nc", "a b c"),
        ("Error from slot1_2@wn7: no space", "Error from slot2@b.desy.de: no space"),
    ],
)
def test_what_differs_from_job_to_job_does_not_tell_failures_apart(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(
    ("one", "other"), [("no space left", "no route"), ("cmsRun1 failed", "stageOut1 failed")]
)
def test_different_troubles_stay_apart(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@given(st.text(max_size=2000))
def test_any_message_is_normalised_to_a_bounded_one_that_stays(message: str) -> None:
    once = normalise(message)
    assert len(once) <= 300
    assert "\n" not in once


def test_clusters_count_jobs_groups_and_both_shares() -> None:
    jobs = [job(number) for number in range(6)] + [job(9, site=DESY)]
    found = build_clusters(RoundFailures(10, jobs=tuple(jobs), ran={CERN: 8, DESY: 20}))
    here, there = found
    assert (here.site, here.jobs, here.groups) == (CERN, 6, ("mg_000000", "mg_000001"))
    assert (here.share_at_site, here.share_elsewhere) == (0.75, 0.05)
    assert here.fingerprint == there.fingerprint


def test_nothing_is_said_of_other_sites_where_no_job_ran() -> None:
    (cluster,) = build_clusters(RoundFailures(1, jobs=tuple(job(n) for n in range(4)), ran={CERN: 4}))
    assert suggest(cluster).why == f"100% of the jobs at {CERN} fail like this, none ran elsewhere"


@pytest.mark.parametrize(
    ("message", "reason", "told"),
    [("a", "a; b", "a; b"), ("a; b", "b", "a; b"), ("a", "b", "a (b)"), ("a", "", "a")],
)
def test_what_message_and_reason_share_is_told_once(message: str, reason: str, told: str) -> None:
    (cluster,) = build_clusters(RoundFailures(1, jobs=(job(message=message, reason=reason),)))
    assert cluster.example == told


def test_code_and_step_tell_clusters_apart() -> None:
    jobs = (job(1), job(2, exit_code=60311), job(3, step="stageOut1"))
    assert len(build_clusters(RoundFailures(1, jobs=jobs))) == 3


def test_counts_are_by_category_site_and_code() -> None:
    told = counts_of(RoundFailures(1, jobs=(job(1), job(2), job(3, category="data", exit_code=8021))))
    assert told[0] == {"category": "infrastructure", "site": CERN, "exit_code": 60307, "jobs": 2}
    assert told[1]["jobs"] == 1


LFNS = tuple(f"/store/data/{n}.root" for n in range(4))


@pytest.mark.parametrize(
    ("jobs", "ran", "action", "modifications"),
    [
        ([job(n) for n in range(4)], {CERN: 5, DESY: 9}, Remedy.BAN_SITE, {"site_bans": [CERN]}),
        ([job(n) for n in range(2)], {CERN: 2}, Remedy.RETRY, {}),
        ([job(n) for n in range(4)], {CERN: 40}, Remedy.RETRY, {}),
        (
            [job(1, exit_code=50660, category="permanent", memory_mb=2100)], {},
            Remedy.RAISE_MEMORY, {"memory_mb": 3200},
        ),
        ([job(1, exit_code=50664, category="permanent")], {CERN: 9}, Remedy.RAISE_TIME, {}),
        ([job(1, exit_code=8001, category="permanent")], {CERN: 9}, Remedy.FAIL, {}),
        (
            [job(1, exit_code=8021, category="data", bad_files=LFNS[:1])], {CERN: 9},
            Remedy.EXCLUDE_FILES, {"excluded_files": [LFNS[0]]},
        ),
        (
            [job(n, exit_code=8021, category="data", bad_files=(LFNS[n],)) for n in range(4)],
            {CERN: 4, DESY: 9}, Remedy.BAN_SITE, {"site_bans": [CERN]},
        ),
    ],
)  # fmt: skip
def test_a_cluster_suggests_what_may_help(
    jobs: list[FailedJob], ran: dict[str, int], action: Remedy, modifications: dict[str, Any]
) -> None:
    found = suggest(build_clusters(RoundFailures(10, jobs=tuple(jobs), ran=ran))[0])
    assert (found.action, found.modifications) == (action, modifications)
