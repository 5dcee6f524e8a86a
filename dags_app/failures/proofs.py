"""Find the copies of input files that the failures of a round prove bad. Pure.

A copy is proved bad when the wrapper received bytes with a wrong size or checksum, or when the storage did
not give out this file and gave out others. A payload's own word proves nothing to other requests. Where
most jobs of a site fail, its storage is to blame and no file is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dags_app.failures.clusters import FailedJob, RoundFailures
from sandbox.exitcodes import DATA, INFRASTRUCTURE, Tag, has_tag
from sandbox.failure import PAYLOAD

MAX_PROOF = 1000  # characters


@dataclass(frozen=True, slots=True)
class Proof:
    """A copy that is bad, and the job that found out."""

    lfn: str
    site: str
    exit_code: int
    message: str
    node: str


def find_proofs(failures: RoundFailures, *, min_failures: int, failure_ratio: float) -> list[Proof]:
    """Return the copies proved bad, one proof each. `min_failures`, `failure_ratio`: those of a site ban."""
    failed = Counter(job.site for job in failures.jobs if job.category in (DATA, INFRASTRUCTURE))
    found: dict[tuple[str, str], Proof] = {}
    for job in failures.jobs:
        ran = max(failures.ran.get(job.site, 0), failed[job.site])
        site_wide = failed[job.site] >= min_failures and failed[job.site] > failure_ratio * ran
        if site_wide or not _proves(job, gave_others=ran > failed[job.site]):
            continue
        for lfn in job.bad_files:
            found.setdefault((lfn, job.site), _proof(job, lfn))
    return [found[key] for key in sorted(found)]


def _proves(job: FailedJob, *, gave_others: bool) -> bool:
    if not job.site or job.category != DATA or job.source == PAYLOAD:
        return False
    return gave_others or has_tag(job.exit_code, Tag.CORRUPT)


def _proof(job: FailedJob, lfn: str) -> Proof:
    message = (job.message or job.reason)[:MAX_PROOF]
    return Proof(lfn, job.site, job.exit_code, message, f"{job.group}/{job.node}")
