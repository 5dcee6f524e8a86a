"""Similar failures become one cluster, across requests; a cluster suggests a remedy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags_app.failures.clusters import (
    FailedJob,
    Known,
    Remedy,
    RoundFailures,
    build_clusters,
    counts_of,
    normalise,
    suggest,
)

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
        ("the storage of T2_CH_CERN does not exist", "the storage of T1_US_FNAL does not exist"),
        ("root://eos.cern.ch//a/b?x=1 failed", "https://x.org/c failed"),
        ("at 10.1.2.3:80", "at 192.168.0.1"),
        ("a  b\nc", "a b c"),
        ("Error from slot1_2@wn7: no space", "Error from slot2@b.desy.de: no space"),
    ],
)
def test_text_that_differs_between_jobs_does_not_split_clusters(one: str, other: str) -> None:
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


def test_sites_without_jobs_are_not_compared() -> None:
    (cluster,) = build_clusters(RoundFailures(1, jobs=tuple(job(n) for n in range(4)), ran={CERN: 4}))
    assert suggest(cluster).why == f"100% of the jobs at {CERN} fail like this, none ran elsewhere"


@pytest.mark.parametrize(
    ("message", "reason", "text"),
    [("a", "a; b", "a; b"), ("a; b", "b", "a; b"), ("a", "b", "a (b)"), ("a", "", "a")],
)
def test_text_shared_by_message_and_reason_occurs_once(message: str, reason: str, text: str) -> None:
    (cluster,) = build_clusters(RoundFailures(1, jobs=(job(message=message, reason=reason),)))
    assert cluster.example == text


HELD_FOR_MEMORY = "no usable report; Error from slot1_1@wn1: Job has gone over memory limit of 128 megabytes."
EXCEPTION = (
    "An exception of category 'ProductNotFound' occurred while\n [0] Processing Event run: {0} stream: {0}\n"
    "   [1] Calling method for module Producer{0}/'label{0}'\nException Message:\nFound zero products\n"
)


@pytest.mark.parametrize(
    "jobs",
    [
        [
            job(1, exit_code=50660, category="permanent", step="cmsRun1", message="OverMemory: 9 MB used"),
            job(2, exit_code=50660, category="permanent", message=HELD_FOR_MEMORY),
            job(3, exit_code=8004, category="transient", step="cmsRun1", message="bad_alloc"),
            job(4, exit_code=137, message="killed", memory_mb=95, memory_asked_mb=100),
        ],
        [
            job(1, message="permission denied", step="stageOut1"),
            job(2, message="no space left on device", step="stageOut1"),
            job(3, message="no usable report, return value 147"),
        ],
        [job(n, exit_code=8001, message=EXCEPTION.format(n)) for n in range(3)],
        [
            job(n, exit_code=99303, message=f"no usable report (proc_{n:06d}.report.json: no such file)")
            for n in (3, 100_003)
        ],
    ],
    ids=["memory, however it shows", "one exit code", "an exception in any module", "any node"],
)
def test_one_cause_at_one_site_is_one_cluster(jobs: list[FailedJob]) -> None:
    (cluster,) = build_clusters(RoundFailures(9, jobs=tuple(jobs)))
    assert cluster.jobs == len(jobs)


@pytest.mark.parametrize(
    "jobs",
    [
        [job(1), job(2, exit_code=60311)],
        [job(1, exit_code=8001, message="no record"), job(2, exit_code=8001, message="no product")],
        [job(1, exit_code=4711, message="one"), job(2, exit_code=4711, message="another")],
        [
            job(1, exit_code=137, memory_mb=10, memory_asked_mb=100),
            job(2, exit_code=137, memory_mb=95, memory_asked_mb=100),
        ],
        [job(1), job(2, site=DESY)],
    ],
    ids=["codes", "messages of a vague code", "messages of an unknown code", "kills", "sites"],
)
def test_different_causes_are_different_clusters(jobs: list[FailedJob]) -> None:
    assert len(build_clusters(RoundFailures(9, jobs=tuple(jobs)))) == 2


def test_a_cluster_shows_its_commonest_message_and_that_there_are_others() -> None:
    jobs = (job(1, message="rare"), job(2, message="common"), job(3, message="common"))
    (cluster,) = build_clusters(RoundFailures(9, jobs=jobs))
    assert (cluster.message, cluster.example) == ("common", "common (and 1 other message)")


def test_counts_are_by_category_site_and_code() -> None:
    result = counts_of(RoundFailures(1, jobs=(job(1), job(2), job(3, category="data", exit_code=8021))))
    assert result[0] == {"category": "infrastructure", "site": CERN, "exit_code": 60307, "jobs": 2}
    assert result[1]["jobs"] == 1


LFNS = tuple(f"/store/data/{n}.root" for n in range(4))


BROKEN: dict[str, Any] = {"exit_code": 8001, "category": "permanent", "message": "no record"}
OOM: dict[str, Any] = {"exit_code": 50660, "category": "permanent"}


def corrupt(number: int, **values: Any) -> FailedJob:
    return job(number, exit_code=8021, category="data", bad_files=(LFNS[number],), **values)


@pytest.mark.parametrize(
    ("jobs", "ran", "known", "action", "modifications"),
    [
        ([job(n) for n in range(4)], {CERN: 5, DESY: 9}, Known(), Remedy.BAN_SITE, {"site_bans": [CERN]}),
        ([job(n) for n in range(4)], {CERN: 4}, Known(), Remedy.BAN_SITE, {"site_bans": [CERN]}),
        ([job(n) for n in range(2)], {CERN: 2}, Known(), Remedy.RETRY, {}),
        ([job(n) for n in range(4)], {CERN: 40}, Known(), Remedy.RETRY, {}),
        (
            [job(n, **BROKEN) for n in range(8)], {CERN: 8, DESY: 16}, Known(),
            Remedy.BAN_SITE, {"site_bans": [CERN]},
        ),
        (
            [job(n, **OOM, memory_mb=90) for n in range(8)], {CERN: 8, DESY: 16}, Known(),
            Remedy.BAN_SITE, {"site_bans": [CERN]},
        ),
        ([job(n, **BROKEN) for n in range(8)], {CERN: 8}, Known(), Remedy.RETRY, {}),
        ([job(1, **BROKEN)], {CERN: 9}, Known(), Remedy.RETRY, {}),
        (
            [job(n, site=site, **BROKEN) for n in range(4) for site in (CERN, DESY)], {CERN: 4, DESY: 4},
            Known(), Remedy.FAIL, {},
        ),
        (
            [job(n, site=site, **BROKEN) for n in range(4) for site in (CERN, DESY)], {CERN: 4, DESY: 5},
            Known(), Remedy.RETRY, {},
        ),
        (
            [job(n, site=site, **BROKEN) for n in range(4) for site in (CERN, DESY)], {CERN: 4, DESY: 4},
            Known(groups_done=1), Remedy.RETRY, {},
        ),
        (
            [job(n, site=site, **BROKEN) for n in range(4) for site in (CERN, "")], {CERN: 4}, Known(),
            Remedy.RETRY, {},
        ),
        ([job(1, **OOM, memory_mb=2100)], {}, Known(), Remedy.RAISE_MEMORY, {"memory_mb": 3200}),
        (
            [job(1, **OOM, memory_mb=0, memory_asked_mb=2000)], {}, Known(),
            Remedy.RAISE_MEMORY, {"memory_mb": 3000},
        ),
        (
            [job(1, **OOM, memory_mb=90)], {}, Known(memory_asked_mb=2000),
            Remedy.RAISE_MEMORY, {"memory_mb": 3000},
        ),
        ([job(1, **OOM)], {}, Known(), Remedy.RAISE_MEMORY, {}),
        ([job(1, exit_code=137, memory_mb=10, memory_asked_mb=100)], {}, Known(), Remedy.RETRY, {}),
        ([job(1, exit_code=50664, category="permanent")], {CERN: 9}, Known(), Remedy.RAISE_TIME, {}),
        ([corrupt(0)], {CERN: 9}, Known(), Remedy.RETRY, {}),
        (
            [corrupt(0)], {CERN: 9}, Known(lost_files=frozenset(LFNS)),
            Remedy.EXCLUDE_FILES, {"excluded_files": [LFNS[0]]},
        ),
        (
            [corrupt(n) for n in range(2)], {CERN: 9}, Known(lost_files=frozenset(LFNS[1:])),
            Remedy.EXCLUDE_FILES, {"excluded_files": [LFNS[1]]},
        ),
        (
            [corrupt(n) for n in range(4)], {CERN: 4, DESY: 9}, Known(),
            Remedy.BAN_SITE, {"site_bans": [CERN]},
        ),
        (
            [corrupt(n) for n in range(4)], {CERN: 4, DESY: 9}, Known(lost_files=frozenset(LFNS)),
            Remedy.EXCLUDE_FILES, {"excluded_files": list(LFNS)},
        ),
    ],
)  # fmt: skip
def test_a_cluster_suggests_a_remedy(
    jobs: list[FailedJob], ran: dict[str, int], known: Known, action: Remedy, modifications: dict[str, Any]
) -> None:
    found = suggest(build_clusters(RoundFailures(10, jobs=tuple(jobs), ran=ran))[0], known)
    assert (found.action, found.modifications) == (action, modifications)


@pytest.mark.parametrize("limit", ["all 4 attempts were used", "needs more than the ceiling of 3000 MB"])
def test_a_suggestion_names_the_limit_that_ended_retries(limit: str) -> None:
    for values in (OOM, {}):
        (cluster,) = build_clusters(RoundFailures(1, jobs=(job(1, **values, limit=limit),)))
        assert suggest(cluster).why.endswith(f"; retries ended: {limit}")
