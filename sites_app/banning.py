"""Decides when a site is banned for one workflow or for all. Pure.

Evidence is of two kinds. Reports of the wrapper or HTCondor are *proved*: a payload cannot cause them. Exit
codes and reports of a payload are *claimed*: they affect only their own request, unless requests of
different people agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dags_app.failures.clusters import FailedJob, RoundFailures
from sandbox.exitcodes import INFRASTRUCTURE
from sandbox.failure import PAYLOAD


@dataclass(frozen=True, slots=True)
class SiteTally:
    """Job counts of one workflow at one site in a round, and at other sites."""

    site: str
    jobs: int
    infrastructure: int  # proved
    unreadable_files: int  # proved; only files that were read at another site
    claimed: int = 0  # of both kinds, claimed by payloads
    claimed_elsewhere: int = 0
    jobs_elsewhere: int = 0

    @property
    def proved(self) -> int:
        """Failures of the site that a payload cannot cause."""
        return self.infrastructure + self.unreadable_files

    @property
    def failures(self) -> int:
        """All failures attributed to the site."""
        return self.proved + self.claimed

    @property
    def message(self) -> str:
        """Reason of the ban."""
        message = f"{self.failures} of {self.jobs} jobs failed because of the site"
        return f"{message}, {self.claimed} of them reported by the payload only" if self.claimed else message

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Number of requests and requestors that report failures of a site; `proved`: requests with proof."""

    requests: int
    proved: int
    requestors: int

    @property
    def message(self) -> str:
        """Evidence, as one sentence."""
        people = f"{self.requestors} requestor{'' if self.requestors == 1 else 's'}"
        return f"{self.requests} requests of {people}, {self.proved} reported by the wrapper or HTCondor"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def tally_sites(
    failures: RoundFailures, *, read_elsewhere: Mapping[str, Mapping[str, str]]
) -> list[SiteTally]:
    """Count by site. `read_elsewhere`: by site, files unreadable there and read at another site.

    Each file is mapped to the source of the report.
    """
    site_failures = [job for job in failures.jobs if job.site and job.category == INFRASTRUCTURE]
    proved = Counter(job.site for job in site_failures if not _is_claim(job))
    claimed = Counter(job.site for job in site_failures if _is_claim(job))
    ran, all_claimed = sum(failures.ran.values()), claimed.total()
    tallies = []
    for site in sorted({*proved, *claimed, *read_elsewhere}):
        sources = Counter(read_elsewhere.get(site, {}).values())
        unreadable = sources.total() - sources[PAYLOAD]
        claims = claimed[site] + sources[PAYLOAD]
        jobs = max(failures.ran.get(site, 0), proved[site] + unreadable + claims)
        elsewhere = all_claimed - claimed[site]
        left = max(ran - failures.ran.get(site, 0), elsewhere)
        tallies.append(SiteTally(site, jobs, proved[site], unreadable, claims, elsewhere, left))
    return tallies


def _is_claim(job: FailedJob) -> bool:
    return job.source == PAYLOAD


def decide_bans(
    tallies: Collection[SiteTally], *, min_failures: int, failure_ratio: float
) -> list[SiteTally]:
    """Return the sites to ban for this workflow, by number and fraction of failed jobs.

    Claims count only if the payload succeeds more often at other sites.
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
    """Return whether the claimed failure rate elsewhere is at least half of the rate here."""
    return tally.claimed_elsewhere * tally.jobs * 2 >= tally.claimed * max(tally.jobs_elsewhere, 1) > 0


def is_proved(failure_data: Mapping[str, Any], *, min_failures: int, failure_ratio: float) -> bool:
    """Return whether the recorded evidence of a ban suffices without claims."""
    if "claimed" not in failure_data:
        return False
    tally = SiteTally(**failure_data)
    alone = SiteTally(tally.site, tally.jobs, tally.infrastructure, tally.unreadable_files)
    return bool(decide_bans([alone], min_failures=min_failures, failure_ratio=failure_ratio))


def decide_promotion(
    agreed: Agreement, *, threshold: int, requestors: int, succeeded: int = 0, failure_ratio: float = 0.0
) -> bool:
    """Return whether to ban the site for all: enough requests with proof, or claims of enough people.

    `succeeded` requests count in favour of the site. Claims of one person count once.
    """

    def outweighs(votes: int) -> bool:
        return votes > failure_ratio * (votes + succeeded)

    proved = agreed.proved >= threshold and outweighs(agreed.proved)
    enough = agreed.requests >= threshold and agreed.requestors >= requestors
    return proved or (enough and outweighs(agreed.requestors))
