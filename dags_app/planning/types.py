"""Values that planning takes and returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dags_app.states import SplittingAlgo
from sandbox.lumis import Ranges

SERVICE_NODES = 3  # landing, merge and cleanup of every group


@dataclass(frozen=True, slots=True)
class SitePool:
    """The sites a workflow may use now, and the sites, usable or not, that read each storage."""

    names: frozenset[str]
    by_storage: Mapping[str, frozenset[str]]
    memory_mb_per_core: Mapping[str, int] = field(default_factory=dict)  # only sites with a limit
    lacking: frozenset[str] = frozenset()  # not usable only because they lack secondary input
    prefixes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of storage, as Rucio knows them

    def without(self, names: Collection[str]) -> SitePool:
        """Return the pool without these usable sites."""
        return replace(self, names=self.names.difference(names))

    def offering(self, memory_mb_per_core: float) -> frozenset[str]:
        """Return the usable sites with this much memory per core."""
        return frozenset(
            name
            for name in self.names
            if self.memory_mb_per_core.get(name, memory_mb_per_core) >= memory_mb_per_core
        )

    def reading(self, storages: frozenset[str]) -> frozenset[str]:
        """Return the usable sites that read at least one of these storages."""
        known = (self.by_storage.get(storage, frozenset()) for storage in storages)
        return self.names.intersection(frozenset().union(*known))

    def holding(self, storages: frozenset[str]) -> frozenset[str]:
        """Return all sites that read one of these storages; an unknown storage counts as a site."""
        found: frozenset[str] = frozenset()
        for storage in storages:
            found |= self.by_storage.get(storage) or frozenset({storage})
        return found


@dataclass(frozen=True, slots=True)
class FileSpec:
    """An input file for planning; `sites` are those that may read it now."""

    lfn: str
    events: int
    size_bytes: int
    sites: frozenset[str]
    adler32: str = ""
    lumis: Ranges = ()
    mask: Ranges | None = None  # lumis left to read
    left: Ranges | None = None  # events left to read, as run 0, where files are cut by events


class FileWindow(NamedTuple):
    """The part of a file that a job reads. Events count from 0; None means the whole file.

    `mask` replaces the job's mask for this file, where lumis are in several files of a job that does not
    read all of them from each.
    """

    file: FileSpec
    first_event: int | None = None
    last_event: int | None = None
    mask: Ranges | None = None

    @property
    def events(self) -> int:
        """The number of events in the window."""
        if self.first_event is None or self.last_event is None:
            return self.file.events
        return self.last_event - self.first_event + 1


@dataclass(frozen=True, slots=True)
class Generation:
    """The events that a Monte Carlo job generates. No two jobs of a workflow share a lumi.

    Event numbers restart at their maximum; `position` does not, so it identifies every event.
    """

    first_event: int
    last_event: int
    first_lumi: int
    last_lumi: int
    events_per_lumi: int
    position: int  # of the first event
    run: int = 1
    numbering_from: int | None = None  # the event that opens `first_lumi`, where that is not the first


class JobSpec(NamedTuple):
    """The work of one processing job.

    `events` of a job that takes only some lumis is an estimate: lumis times the average of their file. A
    job with a `failed_code` cannot succeed and must not be submitted.
    """

    files: tuple[FileWindow, ...]
    sites: frozenset[str]
    events: int
    generate: Generation | None = None
    mask: Ranges | None = None
    failed_code: int | None = None
    failed_reason: str = ""

    @property
    def failed(self) -> bool:
        """Whether the job is known to be impossible."""
        return self.failed_code is not None


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated cost of an event, the number of cores, and the source of the estimate."""

    time_per_event_sec: float
    memory_mb: int
    size_per_event_kb: float
    source: str  # hints | campaign | pilot | measured
    cores: int = 1
    decided: tuple[str, ...] = ()  # members set by an operator

    def source_of(self, member: str) -> str:
        """Return the source of this member, or `operator`."""
        return "operator" if member in self.decided else self.source

    def as_json(self) -> dict[str, Any]:
        """Return the estimate for the record of the round."""
        return {
            "time_per_event_sec": self.time_per_event_sec,
            "memory_mb": self.memory_mb,
            "size_per_event_kb": self.size_per_event_kb,
            "source": self.source,
            "cores": self.cores,
            "operator": list(self.decided),
        }


@dataclass(frozen=True, slots=True)
class PlanSpec:
    """The parts of a workflow that planning depends on."""

    workflow_id: str
    request_name: str
    algo: SplittingAlgo
    params: Mapping[str, Any]
    jobs_per_group: int
    target_merged_size_kb: int
    gpus: int = 0
    joins_files: bool = True  # False: the merge tool takes one file


@dataclass(frozen=True, slots=True)
class EventBudget:
    """Monte Carlo: the next unused event and lumi, and the number of events to generate."""

    first_event: int
    first_lumi: int
    events: int


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A merge group: jobs that run at one site and whose outputs are merged together."""

    index: int
    first_job: int  # index within the round of its first job
    jobs: tuple[JobSpec, ...]
    sites: frozenset[str]
    estimated_output_kb: int

    @property
    def events(self) -> int:
        """Input events of the group."""
        return sum(job.events for job in self.jobs)


@dataclass(frozen=True, slots=True)
class Plan:
    """A planned round, which depends on the input of `build_plan` only."""

    groups: tuple[GroupSpec, ...]
    estimate: Estimate
    next_first_event: int | None = None
    next_first_lumi: int | None = None
    events_per_job: int | None = None  # size of the jobs, from which the next round is steered
    unplaceable: tuple[str, ...] = field(default=())  # files that no usable site can read
    truncated: bool = False  # more rounds follow: the last files may be read in part

    @property
    def jobs(self) -> int:
        """Processing jobs in all groups."""
        return sum(len(group.jobs) for group in self.groups)

    @property
    def events(self) -> int:
        """Input or generated events in all groups."""
        return sum(group.events for group in self.groups)

    @property
    def total_nodes(self) -> int:
        """DAG nodes: the jobs, and a landing, a merge and a cleanup per group."""
        return self.jobs + SERVICE_NODES * len(self.groups)
