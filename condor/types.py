"""Values read from DAGMan and the schedd: ads, status files, metrics, limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, IntEnum
from typing import NamedTuple

from wms2_project.errors import PermanentError

NO_SITE = "none"  # DESIRED_Sites of a job without a usable site: matches none


class RenderError(PermanentError):
    """A rendered submit or DAG file differs from what was intended; nothing was written."""

    code = "render_error"


class UnreadableFile(PermanentError):
    """A complete file contradicts itself; the last good reading stays valid."""

    code = "unreadable_file"


class Presence(Enum):
    """Whether a DAG is known to the schedd. UNKNOWN (no answer) never counts as ABSENT."""

    FOUND = "found"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class JobStatus(IntEnum):
    """HTCondor's JobStatus of a DAGMan job."""

    IDLE = 1
    RUNNING = 2
    REMOVED = 3
    COMPLETED = 4
    HELD = 5
    TRANSFERRING = 6
    SUSPENDED = 7


class NodeState(IntEnum):
    """NodeStatus values of DAGMan's node status file."""

    NOT_READY = 0
    READY = 1
    PRERUN = 2
    SUBMITTED = 3
    POSTRUN = 4
    DONE = 5
    ERROR = 6
    FUTILE = 7


class GroupNodes(NamedTuple):
    """Nodes of a running group: done, failed finally, and those whose jobs run, are idle or held."""

    done: int
    failed: int = 0
    running: int = 0
    idle: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class DagmanAd:
    """The outer DAGMan of a DAG: `nodes_*` count its merge groups, `jobs_*` the jobs in all of them.

    `finished` means that the ad was read from history: it left the queue and does not change any more.
    """

    batch_name: str
    cluster_id: int
    job_status: JobStatus
    finished: bool
    exit_code: int | None = None
    exit_signal: int | None = None
    hold_reason: str = ""
    hold_code: int = 0
    remove_reason: str = ""
    directory: str = ""
    nodes_total: int = 0
    nodes_done: int = 0
    nodes_failed: int = 0
    nodes_futile: int = 0
    nodes_queued: int = 0
    jobs_idle: int = 0
    jobs_running: int = 0
    jobs_held: int = 0
    groups_running: int = 0
    groups_held: int = 0
    groups: Mapping[str, GroupNodes] = field(default_factory=dict)  # those that run
    submitted_at: datetime | None = None
    entered_status_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the DAG ended by itself with every group done."""
        return (
            self.finished
            and self.job_status is JobStatus.COMPLETED
            and self.exit_code == 0
            and 0 < self.nodes_total == self.nodes_done
        )


@dataclass(frozen=True, slots=True)
class SlotCount:
    """Cores of a site in the pool, and those claimed by jobs."""

    total: int = 0
    running: int = 0


@dataclass(frozen=True, slots=True)
class StuckJob:
    """A job of a group that is held (`hold_code` is its HoldReasonCode) or waits to start (0)."""

    batch_name: str
    group: str
    node: str
    hold_code: int
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A running processing job; `cpu_sec` is HTCondor's last report of this run."""

    batch_name: str
    group: str
    node: str
    cluster_id: int
    site: str
    started_at: datetime
    cpu_sec: float


@dataclass(frozen=True, slots=True)
class StatusFile:
    """One complete node status file. `dag_status` uses the node values (5 done, 6 error)."""

    dag_status: NodeState
    written_at: int
    nodes_total: int
    nodes_done: int
    nodes_failed: int
    nodes_futile: int
    nodes_queued: int
    nodes_ready: int
    nodes_unready: int
    nodes_pre: int
    nodes_post: int
    jobs_held: int
    jobs_idle: int
    done: Sequence[str]
    nodes: Mapping[str, NodeState]


class FileStamp(NamedTuple):
    """Identity of a file's content according to stat."""

    inode: int
    mtime_ns: int
    size: int


@dataclass(frozen=True, slots=True)
class StatusReading:
    """A status file, and the stamp to pass to the next reading."""

    stamp: FileStamp
    status: StatusFile


@dataclass(frozen=True, slots=True)
class FinalMetrics:
    """The `.metrics` file of DAGMan. `dag_status`: 0 ok, 2 node failed, 3 aborted, 4 removed."""

    version: str
    exit_code: int
    dag_status: int
    nodes_total: int
    nodes_succeeded: int
    nodes_failed: int
    rescue_number: int
    started_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class ScheddLimits:
    """Limits of running DAGMans (outer and inner together); None: no limit found."""

    scheduler_jobs_per_owner: int | None
    scheduler_jobs_total: int | None
    scheduler_jobs_running: int

    @property
    def allowed(self) -> int | None:
        """DAGMans that may run at a time; None if there is no limit."""
        limits = [n for n in (self.scheduler_jobs_per_owner, self.scheduler_jobs_total) if n is not None]
        return min(limits, default=None)
