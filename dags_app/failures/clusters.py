"""Clusters of failures of a round: jobs that failed alike at one site. Pure.

A cluster is one cause at one site. The cause is the resource the jobs ran out of; else the exit code; and
for a code that only says that something failed (tag `vague`, or not in the table), the code with the
normalised message. The step is not part of it: it follows from the code, and is unknown without a report.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from sandbox.exitcodes import DATA, INFRASTRUCTURE, PERMANENT, Tag, has_tag, ran_out_of
from sandbox.failure import PAYLOAD
from sandbox.limits import Resource
from sandbox.postrecord import PostRecord
from wms2_project.words import counted

_T = TypeVar("_T", int, str)
ABORTS = "abort_dag"  # action of a record whose failure concerns all nodes
MEMORY, WALL_TIME = (resource.value.name for resource in (Resource.MEMORY, Resource.WALL_TIME))
MAX_CLUSTERS, MAX_NAMED, MAX_TAIL, MAX_MESSAGE = 100, 100, 4000, 300
SITE_SHARE, SITE_JOBS = 0.5, 3  # thresholds from which failures are attributed to the site

# CMSSW's report of an exception: modules and paths before the message differ between jobs.
_EXCEPTION = re.compile(
    r"exception of category '([^']{1,100})'.*?Exception Message:\s*(.*?)(?:\n\s*Additional Info:|$)",
    re.DOTALL,
)
_PLACEHOLDERS = (
    (re.compile(r"\b(?:proc|mg)_\d{6,}"), "<node>"),
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
    """The last attempt of a node."""

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
    memory_asked_mb: int = 0
    limit: str = ""  # what ended the retries
    log_tail: str = ""
    source: str = PAYLOAD  # who set the exit code

    @classmethod
    def of(cls, group: str, record: PostRecord) -> FailedJob:
        """Convert the record of a failed attempt."""
        return cls(
            group=group,
            node=record.node_name,
            site=record.site,
            category=record.category,
            exit_code=record.exit_code,
            message=record.error_message or record.reason,
            step=record.step,
            action=record.action,
            reason=record.reason,
            proof=record.proof,
            bad_files=record.bad_input_files,
            memory_mb=record.memory_mb,
            memory_asked_mb=record.memory_asked_mb,
            limit=record.limit[:200],
            log_tail=record.log_tail,
            source=record.source,
        )

    @property
    def resource(self) -> str:
        """The resource the job ran out of; empty if none."""
        found = ran_out_of(self.exit_code, used_mb=self.memory_mb, requested_mb=self.memory_asked_mb)
        return found.value.name if found and found is not Resource.DISK else ""

    @property
    def cause(self) -> str:
        """The cause of the failure, without what differs between jobs."""
        return _cause(self.resource, self.exit_code, normalise(self.message))

    @property
    def fingerprint(self) -> str:
        """The same for the same cause at any site and in any request."""
        return fingerprint_of(self.cause)


@dataclass(frozen=True, slots=True)
class RoundFailures:
    """Failures of a round; `ran` has the number of jobs that ended, by site."""

    groups: int = 0
    failed_groups: tuple[str, ...] = ()
    jobs: tuple[FailedJob, ...] = ()
    ran: Mapping[str, int] = field(default_factory=dict)
    unread_groups: int = 0  # failed groups beyond the limit, whose records were not read

    @property
    def proof(self) -> str:
        """Reason why the whole DAG was aborted; empty if it was not."""
        for job in self.jobs:
            if job.action == ABORTS:
                shown = job.proof or job.message
                cause = job.reason if shown in job.reason else f"{job.reason}: {shown}"
                return f"{job.group}/{job.node}: {job.exit_code} {cause}"
        return ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Failures of one cause at one site, compared with other jobs there and elsewhere.

    Code, step, category and message are the most common; `memory_mb` is the most a job used or requested.
    """

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
    resource: str = ""  # what the jobs ran out of
    limit: str = ""  # what ended the retries
    source: str = PAYLOAD  # who set the exit code; the payload if it did for one of the jobs

    @property
    def fingerprint(self) -> str:
        """The same for the same cause at any site and in any request."""
        return fingerprint_of(_cause(self.resource, self.exit_code, self.message))

    @property
    def share_at_site(self) -> float:
        """Fraction of the jobs here that failed like this."""
        return self.jobs / self.jobs_at_site if self.jobs_at_site else 1.0

    @property
    def share_elsewhere(self) -> float:
        """Fraction of the jobs at other sites that failed like this."""
        return self.failed_elsewhere / self.jobs_elsewhere if self.jobs_elsewhere else 0.0


class Remedy(StrEnum):
    """Actions that an operator may take about a cluster."""

    BAN_SITE = "ban_site"
    EXCLUDE_FILES = "exclude_files"
    RAISE_MEMORY = "raise_memory"
    RAISE_TIME = "raise_time"
    FAIL = "fail"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A remedy, its reason, and the modifications for a release."""

    action: Remedy
    why: str
    modifications: Mapping[str, Any] = field(default_factory=dict)


def normalise(message: str) -> str:
    """Return the message without what differs between jobs: numbers, paths, identifiers, hosts, sites."""
    found = _EXCEPTION.search(message)
    if found:
        message = f"{found[1]}: {found[2]}"
    for pattern, placeholder in _PLACEHOLDERS:
        message = pattern.sub(placeholder, message)
    return message.strip()[:MAX_MESSAGE]


def _cause(resource: str, exit_code: int, message: str) -> str:
    if resource:
        return resource
    return f"{exit_code} {message}" if has_tag(exit_code, Tag.VAGUE) else str(exit_code)


def fingerprint_of(cause: str) -> str:
    """Return a short name for a cause."""
    return hashlib.sha256(cause.encode()).hexdigest()[:16]


def build_clusters(failures: RoundFailures) -> list[Cluster]:
    """Return one cluster per cause and site, the largest first."""
    alike: dict[tuple[str, str], list[FailedJob]] = {}
    ran_at: Counter[str] = Counter()
    for job in failures.jobs:
        cause = job.cause
        alike.setdefault((cause, job.site), []).append(job)
        ran_at[cause] += bool(job.site)
    ran = sum(failures.ran.values())
    clusters = [
        _cluster(jobs, ran_at[cause] - len(jobs) if site else ran_at[cause], failures.ran.get(site, 0), ran)
        for (cause, site), jobs in alike.items()
    ]
    return sorted(clusters, key=lambda one: (-one.jobs, one.fingerprint, one.site))[:MAX_CLUSTERS]


def _cluster(jobs: Sequence[FailedJob], failed_elsewhere: int, ran_here: int, ran: int) -> Cluster:
    messages = Counter(normalise(job.message) for job in jobs)
    message = messages.most_common(1)[0][0]
    first = next(job for job in jobs if normalise(job.message) == message)
    here = max(ran_here, len(jobs)) if first.site else len(jobs)
    return Cluster(
        message=message,
        exit_code=_commonest(job.exit_code for job in jobs),
        step=_commonest(job.step for job in jobs),
        category=_commonest(job.category for job in jobs),
        site=first.site,
        jobs=len(jobs),
        groups=tuple(sorted({job.group for job in jobs})),
        bad_files=_named(lfn for job in jobs for lfn in job.bad_files),
        jobs_at_site=here,
        failed_elsewhere=failed_elsewhere,
        jobs_elsewhere=max(ran - here if first.site else ran, failed_elsewhere),
        memory_mb=max(max(job.memory_mb, job.memory_asked_mb) for job in jobs),
        example=_example(first, len(messages) - 1)[:MAX_TAIL],
        node=f"{first.group}/{first.node}",
        log_tail=first.log_tail[-MAX_TAIL:],
        resource=first.resource,
        limit=_commonest(job.limit for job in jobs),
        source=first.source if len({job.source for job in jobs}) == 1 else PAYLOAD,
    )


def _commonest(values: Iterable[_T]) -> _T:
    return Counter(values).most_common(1)[0][0]


def _example(job: FailedJob, others: int) -> str:
    text = f"{job.message} ({job.reason})"
    if job.reason in job.message or job.message in job.reason:
        text = max(job.message, job.reason, key=len)
    return f"{text} (and {counted(others, 'other message')})" if others else text


def _named(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names))[:MAX_NAMED])


@dataclass(frozen=True, slots=True)
class Known:
    """Facts besides the cluster on which a suggestion is based."""

    lost_files: frozenset[str] = frozenset()  # input files of which every replica is proved bad
    memory_asked_mb: int = 0
    groups_done: int = 0  # in the whole workflow: if any, its code works


_NOTHING = Known()


def suggest(cluster: Cluster, known: Known = _NOTHING) -> Suggestion:
    """Return the remedy that is most likely to help; an operator decides."""
    elsewhere = f"{cluster.share_elsewhere:.0%} elsewhere" if cluster.jobs_elsewhere else "none ran elsewhere"
    place = cluster.site or "no site"
    shares = f"{cluster.share_at_site:.0%} of the jobs at {place} fail like this, {elsewhere}"
    ended = f"; retries ended: {cluster.limit}" if cluster.limit else ""
    lost = sorted(known.lost_files.intersection(cluster.bad_files))
    if lost and len(lost) == len(cluster.bad_files):
        return _exclusion(lost)
    if _is_about_the_site(cluster):
        return Suggestion(Remedy.BAN_SITE, shares + ended, {"site_bans": [cluster.site]})
    if cluster.resource == MEMORY:
        least = max(cluster.memory_mb, known.memory_asked_mb)
        more = {"memory_mb": -(-least * 3 // 200) * 100} if least else {}
        return Suggestion(Remedy.RAISE_MEMORY, f"{least} MB were not enough{ended}", more)
    if cluster.resource == WALL_TIME:
        return Suggestion(Remedy.RAISE_TIME, f"jobs were stopped for their wall time{ended}")
    if lost:
        return _exclusion(lost)
    if cluster.bad_files:
        found = f"{counted(len(cluster.bad_files), 'file')} failed here, not every replica is proved bad"
        return Suggestion(Remedy.RETRY, f"{found}: a release reads another replica; {shares}")
    if _fails_everywhere(cluster, known):
        return Suggestion(Remedy.FAIL, f"every job failed like this, at every site; {shares}{ended}")
    return Suggestion(Remedy.RETRY, shares + ended)


def _exclusion(lost: list[str]) -> Suggestion:
    why = f"every replica of {counted(len(lost), 'file')} is proved bad"
    return Suggestion(Remedy.EXCLUDE_FILES, why, {"excluded_files": lost})


def _is_about_the_site(cluster: Cluster) -> bool:
    """Return whether enough jobs fail here and at most half as many elsewhere.

    If nothing ran elsewhere, only infrastructure failures count against the site.
    """
    if not cluster.site or cluster.jobs < SITE_JOBS:
        return False
    if cluster.category != INFRASTRUCTURE and cluster.jobs_elsewhere < SITE_JOBS:
        return False
    return cluster.share_at_site > SITE_SHARE and cluster.share_elsewhere < cluster.share_at_site / 2


def _fails_everywhere(cluster: Cluster, known: Known) -> bool:
    """Return whether no job of the workflow succeeded and all failed like this at two sites or more."""
    everywhere = min(cluster.share_at_site, cluster.share_elsewhere) >= 1
    return cluster.category == PERMANENT and bool(cluster.site) and everywhere and not known.groups_done


def counts_of(failures: RoundFailures) -> list[dict[str, Any]]:
    """Return the number of failed jobs by category, site and exit code, the most frequent first."""
    counted = Counter((job.category, job.site, job.exit_code) for job in failures.jobs)
    return [
        {"category": category, "site": site, "exit_code": code, "jobs": jobs}
        for (category, site, code), jobs in counted.most_common(MAX_CLUSTERS)
    ]


def bad_files_of(failures: RoundFailures) -> dict[str, set[str]]:
    """Return the input files that failed jobs could not read, each with the sites."""
    found: dict[str, set[str]] = {}
    for job in failures.jobs:
        for lfn in job.bad_files if job.category == DATA else ():
            found.setdefault(lfn, set()).add(job.site)
    return found
