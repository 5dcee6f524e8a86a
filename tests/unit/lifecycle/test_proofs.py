"""Failures that prove a copy of a file bad for all requests, and failures that do not."""

from __future__ import annotations

from typing import Any

import pytest

from dags_app.failures.clusters import FailedJob, RoundFailures
from dags_app.failures.proofs import find_proofs

CERN, DESY = "T2_CH_CERN", "T2_DE_DESY"
LFN = "/store/data/a.root"
CHECKSUM = f"FatalRootError: {LFN}: checksum 11112222 where 33334444 was planned"


def job(number: int = 0, **values: Any) -> FailedJob:
    known = {
        "group": "mg_000000", "node": f"proc_{number:06d}", "site": CERN, "category": "data",
        "exit_code": 8022, "message": CHECKSUM, "bad_files": (LFN,), "source": "wrapper",
    }  # fmt: skip
    return FailedJob(**(known | values))


def proved(*jobs: FailedJob, ran: int = 20) -> list[tuple[str, str]]:
    failures = RoundFailures(groups=5, failed_groups=("mg_000000",), jobs=jobs, ran={CERN: ran, DESY: ran})
    return [(proof.lfn, proof.site) for proof in find_proofs(failures, min_failures=3, failure_ratio=0.5)]


@pytest.mark.parametrize(
    ("values", "ran", "expected"),
    [
        ({}, 20, True),
        ({}, 1, True),  # the storage delivered wrong content
        ({"exit_code": 8020}, 20, True),  # it delivered other files, not this one
        ({"exit_code": 8020}, 1, False),  # it may be down
        ({"source": "payload"}, 20, False),
        ({"source": "htcondor"}, 20, True),
        ({"category": "infrastructure", "exit_code": 60321}, 20, False),
        ({"site": ""}, 20, False),
        ({"bad_files": ()}, 20, False),
    ],
)
def test_only_sound_evidence_proves_a_copy_bad(values: dict[str, Any], ran: int, expected: bool) -> None:
    assert proved(job(**values), ran=ran) == ([(LFN, CERN)] if expected else [])


@pytest.mark.parametrize("code", [8020, 8022])
def test_a_site_where_most_jobs_fail_quarantines_no_file(code: int) -> None:
    def broken(count: int) -> list[FailedJob]:
        return [job(n, exit_code=code, bad_files=(f"/store/data/{n}.root",)) for n in range(count)]

    assert proved(*broken(4), ran=7) == []
    assert len(proved(*broken(4), ran=8)) == 4
    assert proved(*broken(2), job(9, category="infrastructure", bad_files=()), ran=3) == []


def test_a_copy_is_proved_once_and_each_site_by_itself() -> None:
    assert proved(job(0), job(1), job(2, site=DESY)) == [(LFN, CERN), (LFN, DESY)]
    (proof,) = find_proofs(RoundFailures(jobs=(job(),)), min_failures=3, failure_ratio=0.5)
    assert (proof.exit_code, proof.message, proof.node) == (8022, CHECKSUM, "mg_000000/proc_000000")
