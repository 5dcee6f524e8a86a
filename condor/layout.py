"""Content of a DAG as checked values: no value can add text of its own to a DAG file.

Names and numbers are checked on construction, so every layout may be written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from uuid import UUID

from sandbox.scram import ANY_OS
from sandbox.values import is_whole
from wms2_project.errors import InvalidInput
from wms2_project.grammar import Name, check

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

GROUP_NAME = re.compile(r"mg_[0-9]{6}", re.ASCII)
NODE_NAME = re.compile(r"proc_[0-9]{6}", re.ASCII)
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
_SYSTEM = re.compile(r"rhel[1-9][0-9]?", re.ASCII)
MAX_SITES = 500


def refuse(field_name: str, message: str) -> InvalidInput:
    return InvalidInput(f"{field_name}: {message}", fields={field_name: message})


def check_int(field_name: str, value: object, low: int, high: int) -> int:
    """Return a whole number within bounds; booleans and floats are refused."""
    if not is_whole(value, low, high):
        raise refuse(field_name, f"{value!r:.40} is not a whole number between {low} and {high}")
    return value


def check_path(field_name: str, value: object) -> str:
    """Return a plain relative path that stays inside the submit directory."""
    text = value if isinstance(value, str) else ""
    parts = text.split("/")
    if not text or not all(_SEGMENT.fullmatch(part) for part in parts) or ".." in text:
        raise refuse(field_name, f"{value!r:.80} is not a plain path inside the submit directory")
    return str(PurePosixPath(text))


def check_absolute_path(field_name: str, value: object) -> str:
    """Return an absolute path of plain segments, as an administrator may set one."""
    text = value if isinstance(value, str) else ""
    parts = text.split("/")[1:]
    if not text.startswith("/") or not all(_SEGMENT.fullmatch(part) for part in parts) or ".." in text:
        raise refuse(field_name, f"{value!r:.80} is not a plain absolute path")
    return text


def check_os(field_name: str, value: object) -> str:
    """Return an operating system as pilots name it: rhel8, or any."""
    if isinstance(value, str) and (value == ANY_OS or _SYSTEM.fullmatch(value)):
        return value
    raise refuse(field_name, f"{value!r:.80} is not a system such as rhel8, or {ANY_OS}")


def check_uuid(field_name: str, value: object) -> str:
    """Return a UUID in its canonical spelling."""
    try:
        if isinstance(value, str) and str(UUID(value)) == value:
            return value
    except ValueError:
        pass
    raise refuse(field_name, f"{value!r:.80} is not a UUID in lower-case canonical form")


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """Resources that one job requests."""

    name: str
    memory_mb: int
    cpus: int
    disk_kb: int
    wall_minutes: int

    def __post_init__(self) -> None:
        check_int("memory_mb", self.memory_mb, 1, 10_000_000)
        check_int("cpus", self.cpus, 1, 1024)
        check_int("disk_kb", self.disk_kb, 1, 10**12)
        check_int("wall_minutes", self.wall_minutes, 1, 60 * 24 * 60)


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """A merge group: where it may land, its processing nodes, and their manifest."""

    name: str
    sites: Sequence[str]
    nodes: Sequence[NodeLayout]
    manifest: bytes
    merge: NodeLayout | None = None  # in place of the DAG's

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not GROUP_NAME.fullmatch(self.name):
            raise refuse("name", f"{self.name!r:.80} is not a group name such as mg_000000")
        if not 1 <= len(self.sites) <= MAX_SITES:
            raise refuse("sites", f"{self.name} names {len(self.sites)} sites, expected 1 to {MAX_SITES}")
        for site in self.sites:
            check(Name.SITE, site, field="sites")
        if not self.nodes:
            raise refuse("nodes", f"{self.name} has no processing node")
        names = {node.name for node in self.nodes}
        if len(names) != len(self.nodes):
            raise refuse("nodes", f"{self.name} names a node twice")
        for name in names:
            if not isinstance(name, str) or not NODE_NAME.fullmatch(name):
                raise refuse("nodes", f"{name!r:.80} is not a node name such as proc_000000")
        if self.merge is not None and self.merge.name != "merge":
            raise refuse("merge", "the node must be named 'merge'")
        if not isinstance(self.manifest, bytes):
            raise refuse("manifest", "expected bytes")


def _check_numbers(numbers: DataclassInstance, low: int) -> None:
    for item in fields(numbers):
        check_int(item.name, getattr(numbers, item.name), low, 1_000_000)


@dataclass(frozen=True, slots=True)
class Throttles:
    """Jobs at a time; `processing`, `merge` and `cleanup` apply within one group."""

    processing: int = 5000
    merge: int = 100
    cleanup: int = 50
    merge_groups: int = 10

    def __post_init__(self) -> None:
        _check_numbers(self, 1)


@dataclass(frozen=True, slots=True)
class Retries:
    """Further attempts per role; the first waits `cooloff_sec`, each later one twice as long."""

    landing: int = 2
    processing: int = 3
    merge: int = 2
    cleanup: int = 1
    cooloff_sec: int = 60

    def __post_init__(self) -> None:
        _check_numbers(self, 0)


@dataclass(frozen=True, slots=True)
class DagmanSettings:
    """Intervals (seconds) and limits of DAGMan."""

    status_interval_sec: int = 15
    queue_update_sec: int = 15
    log_scan_sec: int = 5
    max_idle_jobs: int = 1000
    max_post_scripts: int = 20

    def __post_init__(self) -> None:
        _check_numbers(self, 1)


@dataclass(frozen=True, slots=True)
class Asset:
    """A file shared by all groups: the job's executable, the sandbox, scripts of the submit host."""

    path: str
    content: bytes
    executable: bool = False

    def __post_init__(self) -> None:
        check_path("path", self.path)


@dataclass(frozen=True, slots=True)
class DagLayout:
    """A DAG. `groups` may be lazy: they are written one by one, and may be iterated again."""

    request_name: str
    workflow_id: str
    groups: Iterable[GroupLayout]
    assets: Sequence[Asset] = ()
    throttles: Throttles = field(default_factory=Throttles)
    retries: Retries = field(default_factory=Retries)
    settings: DagmanSettings = field(default_factory=DagmanSettings)
    landing: NodeLayout = NodeLayout("landing", memory_mb=128, cpus=1, disk_kb=1024, wall_minutes=60)
    merge: NodeLayout = NodeLayout("merge", memory_mb=2000, cpus=1, disk_kb=20_000_000, wall_minutes=720)
    cleanup: NodeLayout = NodeLayout("cleanup", memory_mb=500, cpus=1, disk_kb=1_000_000, wall_minutes=120)
    memory_ceiling_mb: int = 32_000
    wall_time_ceiling_minutes: int = 48 * 60
    disk_ceiling_kb: int = 20_000_000
    held_grace_sec: int = 60
    max_transfer_output_mb: int = 32
    payload: bytes = b"{}"  # configuration of the payload, for all jobs
    job_files: Sequence[Asset] = ()  # what else every job gets
    priority: int = 0
    gpus: int = 0
    with_token: bool = False
    job_proxy: str = ""
    required_os: str = ANY_OS
    pull: bool = False  # its groups are batches of runners

    def __post_init__(self) -> None:
        check(Name.REQUEST, self.request_name, field="request_name")
        check_uuid("workflow_id", self.workflow_id)
        check_int("memory_ceiling_mb", self.memory_ceiling_mb, 1, 10_000_000)
        check_int("wall_time_ceiling_minutes", self.wall_time_ceiling_minutes, 1, 60 * 24 * 60)
        check_int("disk_ceiling_kb", self.disk_ceiling_kb, 1, 10**12)
        check_int("gpus", self.gpus, 0, 64)
        check_os("required_os", self.required_os)
        check_int("held_grace_sec", self.held_grace_sec, 0, 1_000_000)
        check_int("max_transfer_output_mb", self.max_transfer_output_mb, 1, 100_000)
        check_int("priority", self.priority, -1_000_000_000, 1_000_000_000)
        if self.job_proxy:
            check_absolute_path("job_proxy", self.job_proxy)
        for role in ("landing", "merge", "cleanup"):
            if getattr(self, role).name != role:
                raise refuse(role, f"the node must be named {role!r}")
        paths = [asset.path for asset in (*self.assets, *self.job_files)]
        if len(set(paths)) != len(paths):
            raise refuse("assets", "two assets have the same path")
