"""When a site is to be avoided: by one workflow, and when by all. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dags_app.failures import INFRASTRUCTURE, RoundFailures


@dataclass(frozen=True, slots=True)
class SiteTally:
    """How the jobs of one workflow fared at one site in a round."""

    site: str
    jobs: int
    infrastructure: int
    unreadable_files: int  # only those that were read elsewhere: the copy, not the file, is bad

    @property
    def failures(self) -> int:
        """Failures the site has to answer for."""
        return self.infrastructure + self.unreadable_files

    @property
    def told(self) -> str:
        """The verdict's reason."""
        return f"{self.failures} of {self.jobs} jobs failed for reasons of the site"

    def as_json(self) -> dict[str, Any]:
        """For the ban's record of what triggered it."""
        return asdict(self)


def tally_sites(failures: RoundFailures, *, read_elsewhere: Mapping[str, Collection[str]]) -> list[SiteTally]:
    """Count by site; `read_elsewhere` has, by site, files unreadable there and read at another."""
    infrastructure = Counter(job.site for job in failures.jobs if job.site and job.category == INFRASTRUCTURE)
    sites = sorted(set(infrastructure) | set(read_elsewhere))
    tallies = []
    for site in sites:
        unreadable = len(read_elsewhere.get(site, ()))
        jobs = max(failures.ran.get(site, 0), infrastructure[site] + unreadable)
        tallies.append(SiteTally(site, jobs, infrastructure[site], unreadable))
    return tallies


def decide_bans(
    tallies: Collection[SiteTally], *, min_failures: int, failure_ratio: float
) -> list[SiteTally]:
    """The sites this workflow shall avoid: too many failures, both counted and of all its jobs there."""
    return [
        one for one in tallies if one.failures >= min_failures and one.failures > failure_ratio * one.jobs
    ]


def decide_promotion(*, requests: int, threshold: int) -> bool:
    """Enough requests avoid the site by themselves: it is the site, so all shall."""
    return requests >= threshold
