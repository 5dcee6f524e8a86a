"""When a site is to be avoided: by one workflow, and when by all. Pure.

Evidence is of two kinds. What the wrapper or HTCondor says is *proved*: no payload can bring it about. What a
payload says by its exit code or report is *claimed*: it concerns its own request only, unless requests of
different people claim the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dags_app.failures import FailedJob, RoundFailures
from sandbox.exitcodes import INFRASTRUCTURE
from sandbox.failure import PAYLOAD


@dataclass(frozen=True, slots=True)
class SiteTally:
    """How the jobs of one workflow fared at one site in a round, and elsewhere."""

    site: str
    jobs: int
    infrastructure: int  # proved
    unreadable_files: int  # proved, and only those that were read elsewhere: the copy, not the file, is bad
    claimed: int = 0  # of both kinds, by payloads
    claimed_elsewhere: int = 0
    jobs_elsewhere: int = 0

    @property
    def proved(self) -> int:
        """Failures of the site that no payload can bring about."""
        return self.infrastructure + self.unreadable_files

    @property
    def failures(self) -> int:
        """All failures that speak against the site."""
        return self.proved + self.claimed

    @property
    def told(self) -> str:
        """The verdict's reason."""
        told = f"{self.failures} of {self.jobs} jobs failed for reasons of the site"
        return f"{told}, {self.claimed} of them by the word of the payload" if self.claimed else told

    def as_json(self) -> dict[str, Any]:
        """For the ban's record of what triggered it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many requests, and of how many people, speak against a site; `proved`: requests with proof."""

    requests: int
    proved: int
    requestors: int

    @property
    def told(self) -> str:
        """The evidence and who gave it."""
        people = f"{self.requestors} requestor{'' if self.requestors == 1 else 's'}"
        return f"{self.requests} requests of {people}, {self.proved} by the word of the wrapper or HTCondor"

    def as_json(self) -> dict[str, Any]:
        """For the ban's record of what triggered it."""
        return asdict(self)


def tally_sites(
    failures: RoundFailures, *, read_elsewhere: Mapping[str, Mapping[str, str]]
) -> list[SiteTally]:
    """Count by site; `read_elsewhere` has, by site, files unreadable there and read at another.

    Each file comes with who says that it is unreadable.
    """
    site_failures = [job for job in failures.jobs if job.site and job.category == INFRASTRUCTURE]
    proved = Counter(job.site for job in site_failures if not _is_claim(job))
    claimed = Counter(job.site for job in site_failures if _is_claim(job))
    ran, all_claimed = sum(failures.ran.values()), claimed.total()
    tallies = []
    for site in sorted({*proved, *claimed, *read_elsewhere}):
        sources = Counter(read_elsewhere.get(site, {}).values())
        unreadable = sources.total() - sources[PAYLOAD]
        told = claimed[site] + sources[PAYLOAD]
        jobs = max(failures.ran.get(site, 0), proved[site] + unreadable + told)
        elsewhere = all_claimed - claimed[site]
        left = max(ran - failures.ran.get(site, 0), elsewhere)
        tallies.append(SiteTally(site, jobs, proved[site], unreadable, told, elsewhere, left))
    return tallies


def _is_claim(job: FailedJob) -> bool:
    return job.source == PAYLOAD


def decide_bans(
    tallies: Collection[SiteTally], *, min_failures: int, failure_ratio: float
) -> list[SiteTally]:
    """The sites this workflow shall avoid: too many failures, both counted and of all its jobs there.

    Claims count only where the payload fares better elsewhere: one that fails everywhere accuses nobody.
    """

    def too_many(failures: int, jobs: int) -> bool:
        return failures >= min_failures and failures > failure_ratio * jobs

    return [
        one
        for one in tallies
        if too_many(one.proved, one.jobs)
        or (too_many(one.failures, one.jobs) and not _fails_elsewhere_too(one))
    ]


def _fails_elsewhere_too(tally: SiteTally) -> bool:
    """Is the share of claims elsewhere at least half of the share here?"""
    return tally.claimed_elsewhere * tally.jobs * 2 >= tally.claimed * max(tally.jobs_elsewhere, 1) > 0


def is_proved(failure_data: Mapping[str, Any], *, min_failures: int, failure_ratio: float) -> bool:
    """Return whether the record of a workflow's ban suffices without claims; an older one does not say."""
    if "claimed" not in failure_data:
        return False
    tally = SiteTally(**failure_data)
    alone = SiteTally(tally.site, tally.jobs, tally.infrastructure, tally.unreadable_files)
    return bool(decide_bans([alone], min_failures=min_failures, failure_ratio=failure_ratio))


def decide_promotion(
    agreed: Agreement, *, threshold: int, requestors: int, succeeded: int = 0, failure_ratio: float = 0.0
) -> bool:
    """All shall avoid the site: enough requests have proof, or requests of enough people claim the same.

    `succeeded` requests speak for the site. Of those against it a person's claims count once.
    """

    def outweighs(votes: int) -> bool:
        return votes > failure_ratio * (votes + succeeded)

    proved = agreed.proved >= threshold and outweighs(agreed.proved)
    enough = agreed.requests >= threshold and agreed.requestors >= requestors
    return proved or (enough and outweighs(agreed.requestors))
