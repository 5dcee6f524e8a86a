"""Failures of a round, put together: which jobs failed where and how, alike ones in one cluster. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

ABORTS = "abort_dag"  # the action of a record whose failure concerns every node
INFRASTRUCTURE, DATA, PERMANENT = "infrastructure", "data", "permanent"
WALL_TIME_CODES = frozenset({50664, 71304})
MEMORY_CODES = frozenset({137, 8004, 8030, 8031, 50660, 50661})
# The file itself is bad; the other codes of its category say that it could not be reached.
CORRUPT_CODES = frozenset({8016, 8021, 8022, 8034, 70452})
MAX_CLUSTERS, MAX_NAMED, MAX_TAIL, MAX_MESSAGE = 100, 100, 4000, 300
SITE_SHARE, SITE_JOBS = 0.5, 3  # from here on a site, not chance, is suspected

_PLACEHOLDERS = (
    (re.compile(r"\bslot\d+(?:_\d+)?@\S+"), "<slot>"),
    (re.compile(r"\b[a-z][a-z0-9+]{1,9}://\S+"), "<url>"),
    (re.compile(r"(?:/[\w.+=:@%~#-]+){2,}/?"), "<path>"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\bT[0-3]_[A-Z]{2}_\w+"), "<site>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<host>"),
    (re.compile(r"\b(?:[A-Za-z0-9-]+\.){2,}[A-Za-z]{2,}(?::\d+)?\b"), "<host>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b"), "<id>"),
    (re.compile(r"(?<![A-Za-z_<])\d+(?:\.\d+)?"), "<n>"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True, slots=True)
class FailedJob:
    """One node's last attempt."""

    group: str
    node: str
    site: str
    category: str
    exit_code: int
    message: str
    step: str = ""
    action: str = ""
    reason: str = ""
    proof: str = ""
    bad_files: tuple[str, ...] = ()
    memory_mb: int = 0
    log_tail: str = ""


@dataclass(frozen=True, slots=True)
class RoundFailures:
    """What is known of a round's failures; `ran` counts, by site, the jobs that came to an end there."""

    groups: int = 0
    failed_groups: tuple[str, ...] = ()
    jobs: tuple[FailedJob, ...] = ()
    ran: Mapping[str, int] = field(default_factory=dict)
    unread_groups: int = 0  # failed groups whose records were not looked at: too many

    @property
    def proof(self) -> str:
        """Why the DAG was aborted as a whole; empty if it was not."""
        for job in self.jobs:
            if job.action == ABORTS:
                shown = job.proof or job.message
                told = job.reason if shown in job.reason else f"{job.reason}: {shown}"
                return f"{job.group}/{job.node}: {job.exit_code} {told}"
        return ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Failures alike in code, step and wording at one site, against how jobs fare there and elsewhere."""

    message: str
    exit_code: int
    step: str
    category: str
    site: str
    jobs: int
    groups: tuple[str, ...]
    bad_files: tuple[str, ...]
    jobs_at_site: int
    failed_elsewhere: int
    jobs_elsewhere: int
    memory_mb: int
    example: str
    node: str
    log_tail: str

    @property
    def fingerprint(self) -> str:
        """The same for the same trouble at any site and of any request."""
        return fingerprint_of(self.message, self.exit_code, self.step)

    @property
    def share_at_site(self) -> float:
        """Of the jobs that ran here, so many failed like this."""
        return self.jobs / self.jobs_at_site if self.jobs_at_site else 1.0

    @property
    def share_elsewhere(self) -> float:
        """Of the jobs that ran at other sites, so many failed like this."""
        return self.failed_elsewhere / self.jobs_elsewhere if self.jobs_elsewhere else 0.0


class Remedy(StrEnum):
    """What a person may do about a cluster."""

    BAN_SITE = "ban_site"
    EXCLUDE_FILES = "exclude_files"
    RAISE_MEMORY = "raise_memory"
    RAISE_TIME = "raise_time"
    FAIL = "fail"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A remedy, why, and the modifications that a release would be given for it."""

    action: Remedy
    why: str
    modifications: Mapping[str, Any] = field(default_factory=dict)


def normalise(message: str) -> str:
    """The message without what differs from job to job: numbers, paths, identifiers, hosts, sites."""
    for pattern, placeholder in _PLACEHOLDERS:
        message = pattern.sub(placeholder, message)
    return message.strip()[:MAX_MESSAGE]


def fingerprint_of(message: str, exit_code: int, step: str) -> str:
    """A short name for a normalised message with its code and step."""
    return hashlib.sha256(f"{exit_code}\0{step}\0{message}".encode()).hexdigest()[:16]


def build_clusters(failures: RoundFailures) -> list[Cluster]:
    """Alike failures together, the largest cluster first."""
    alike: dict[tuple[str, int, str, str], list[FailedJob]] = {}
    everywhere: Counter[tuple[str, int, str]] = Counter()
    for job in failures.jobs:
        key = (normalise(job.message), job.exit_code, job.step)
        everywhere[key] += 1
        alike.setdefault((*key, job.site), []).append(job)
    ran = sum(failures.ran.values())
    clusters = [
        _cluster(jobs, message, everywhere[message, code, step], failures.ran.get(site, 0), ran)
        for (message, code, step, site), jobs in alike.items()
    ]
    return sorted(clusters, key=lambda one: (-one.jobs, one.fingerprint, one.site))[:MAX_CLUSTERS]


def _cluster(jobs: Sequence[FailedJob], message: str, everywhere: int, ran_here: int, ran: int) -> Cluster:
    first = jobs[0]
    told = f"{first.message} ({first.reason})"
    if first.reason in first.message or first.message in first.reason:
        told = max(first.message, first.reason, key=len)
    here = max(ran_here, len(jobs))
    return Cluster(
        message=message,
        exit_code=first.exit_code,
        step=first.step,
        category=first.category,
        site=first.site,
        jobs=len(jobs),
        groups=tuple(sorted({job.group for job in jobs})),
        bad_files=_named(lfn for job in jobs for lfn in job.bad_files),
        jobs_at_site=here,
        failed_elsewhere=everywhere - len(jobs),
        jobs_elsewhere=max(ran - here, everywhere - len(jobs)),
        memory_mb=max(job.memory_mb for job in jobs),
        example=told[:MAX_TAIL],
        node=f"{first.group}/{first.node}",
        log_tail=first.log_tail[-MAX_TAIL:],
    )


def _named(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names))[:MAX_NAMED])


def suggest(cluster: Cluster) -> Suggestion:
    """What is most likely to help; a person decides."""
    elsewhere = f"{cluster.share_elsewhere:.0%} elsewhere" if cluster.jobs_elsewhere else "none ran elsewhere"
    place = cluster.site or "no site"
    shares = f"{cluster.share_at_site:.0%} of the jobs at {place} fail like this, {elsewhere}"
    if cluster.exit_code in MEMORY_CODES:
        wanted = -(-max(cluster.memory_mb, 1) * 3 // 200) * 100
        why = f"jobs needed {cluster.memory_mb} MB and more"
        return Suggestion(Remedy.RAISE_MEMORY, why, {"memory_mb": wanted})
    if cluster.exit_code in WALL_TIME_CODES:
        why = "jobs were stopped for their wall time: give more time per event"
        return Suggestion(Remedy.RAISE_TIME, why)
    if _is_about_the_site(cluster):
        return Suggestion(Remedy.BAN_SITE, shares, {"site_bans": [cluster.site]})
    if cluster.category == DATA and cluster.bad_files:
        why = f"{len(cluster.bad_files)} files cannot be read"
        return Suggestion(Remedy.EXCLUDE_FILES, why, {"excluded_files": list(cluster.bad_files)})
    if cluster.category == PERMANENT:
        return Suggestion(Remedy.FAIL, f"trying again gives the same; {shares}")
    return Suggestion(Remedy.RETRY, shares)


def _is_about_the_site(cluster: Cluster) -> bool:
    if not cluster.site or cluster.category not in (INFRASTRUCTURE, DATA) or cluster.jobs < SITE_JOBS:
        return False
    return cluster.share_at_site > SITE_SHARE and cluster.share_elsewhere < cluster.share_at_site / 2


def counts_of(failures: RoundFailures) -> list[dict[str, Any]]:
    """How many jobs failed by category, site and exit code, the most frequent first."""
    counted = Counter((job.category, job.site, job.exit_code) for job in failures.jobs)
    return [
        {"category": category, "site": site, "exit_code": code, "jobs": jobs}
        for (category, site, code), jobs in counted.most_common(MAX_CLUSTERS)
    ]


def bad_files_of(failures: RoundFailures) -> dict[str, set[str]]:
    """The input files that failed jobs blame, each with the sites where it could not be read."""
    found: dict[str, set[str]] = {}
    for job in failures.jobs:
        for lfn in job.bad_files if job.category == DATA else ():
            found.setdefault(lfn, set()).add(job.site)
    return found
