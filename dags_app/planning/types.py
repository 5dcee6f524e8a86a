"""The values planning works on and returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from dags_app.states import SplittingAlgo
from sandbox.lumis import Ranges

SERVICE_NODES = 3  # landing, merge and cleanup of every group


@dataclass(frozen=True, slots=True)
class SitePool:
    """The sites a workflow may use now, and which sites, usable or not, read from which storage."""

    names: frozenset[str]
    by_storage: Mapping[str, frozenset[str]]
    memory_mb_per_core: Mapping[str, int] = field(default_factory=dict)  # only sites that say so
    lacking: frozenset[str] = frozenset()  # not usable only because they lack secondary input
    prefixes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of storage, as Rucio knows them

    def without(self, names: Collection[str]) -> SitePool:
        """The pool with these sites not usable."""
        return replace(self, names=self.names.difference(names))

    def offering(self, memory_mb_per_core: float) -> frozenset[str]:
        """The usable sites whose cores come with this much memory."""
        return frozenset(
            name
            for name in self.names
            if self.memory_mb_per_core.get(name, memory_mb_per_core) >= memory_mb_per_core
        )

    def reading(self, storages: frozenset[str]) -> frozenset[str]:
        """The usable sites that read at least one of these storages."""
        known = (self.by_storage.get(storage, frozenset()) for storage in storages)
        return self.names.intersection(frozenset().union(*known))

    def holding(self, storages: frozenset[str]) -> frozenset[str]:
        """Every site that reads one of these storages; one that no known site reads stands for itself."""
        found: frozenset[str] = frozenset()
        for storage in storages:
            found |= self.by_storage.get(storage) or frozenset({storage})
        return found


@dataclass(frozen=True, slots=True)
class FileSpec:
    """One input file as planning sees it; `sites` are those that may read it now."""

    lfn: str
    events: int
    size_bytes: int
    sites: frozenset[str]
    adler32: str = ""
    lumis: Ranges = ()
    mask: Ranges | None = None  # only these lumis of it are left to read
    left: Ranges | None = None  # only these events, as run 0, where files are cut by events


class FileWindow(NamedTuple):
    """The part of a file one job reads. Events count from 0; `None` means the whole file.

    `mask` takes the place of the job's for this file: needed where lumis are in several files of a job
    that does not read all of them from each.
    """

    file: FileSpec
    first_event: int | None = None
    last_event: int | None = None
    mask: Ranges | None = None

    @property
    def events(self) -> int:
        """How many events the window holds."""
        if self.first_event is None or self.last_event is None:
            return self.file.events
        return self.last_event - self.first_event + 1


@dataclass(frozen=True, slots=True)
class Generation:
    """The events one Monte Carlo job makes. No two jobs of a workflow share a lumi.

    Event numbers start over at their end; `position` counts on, so it tells every event from every other.
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
    """What one processing job must do.

    `events` of a job that takes only some lumis is an estimate: lumis times the average of their file.
    A job with a `failed_code` cannot succeed and must not be submitted.
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
        """Was the job found impossible while it was made?"""
        return self.failed_code is not None


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one event is believed to cost, on how many cores, and who says so."""

    time_per_event_sec: float
    memory_mb: int
    size_per_event_kb: float
    source: str  # hints | pilot | measured
    cores: int = 1
    decided: tuple[str, ...] = ()  # the members that an operator decided, whatever the source says

    def source_of(self, member: str) -> str:
        """Where this member comes from: the source, or `operator`."""
        return "operator" if member in self.decided else self.source

    def as_json(self) -> dict[str, Any]:
        """For the round's record of what its plan believed."""
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
    """Monte Carlo: where the next unused events and lumis start, and how many events to generate."""

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
    """A round, decided: nothing about it depends on anything but the inputs of `build_plan`."""

    groups: tuple[GroupSpec, ...]
    estimate: Estimate
    next_first_event: int | None = None
    next_first_lumi: int | None = None
    events_per_job: int | None = None  # what the jobs were cut to, for the next round to steer from
    unplaceable: tuple[str, ...] = field(default=())  # files no usable site can read
    truncated: bool = False  # there was more than the round may hold: its last files may be read in part

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
