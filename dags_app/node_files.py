"""One node of a DAG in detail, read with bounded effort from the files of its group."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from condor.dagtext import GROUP_DAG
from dags_app.dag_files import group_nodes
from sandbox.limits import FILE as RAISED
from sandbox.postrecord import read_records
from wms2_project.errors import NotFound

MAX_LOG_BYTES = 16 * 1024 * 1024
MAX_JOB_IDS = 50
_VARIABLES = {"MEM": "memory_mb", "CPUS": "cpus", "DISK": "disk_kb", "WALL": "wall_minutes"}
_RAISED = {"memory": "memory_mb", "disk": "disk_kb", "wall_time": "wall_minutes"}


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources that a node requests; raised after an attempt that exceeded them."""

    memory_mb: int = 0
    cpus: int = 0
    disk_kb: int = 0
    wall_minutes: int = 0


@dataclass(frozen=True, slots=True)
class NodeAttempt:
    """One attempt that has ended, as the POST script judged it."""

    attempt: Annotated[int, "From 0; a rescue starts again at 0."]
    ended_at: str
    job_id: Annotated[str, "HTCondor's id of the job."]
    site: str
    exit_code: int
    category: str
    action: Annotated[str, "Action that POST requested of DAGMan."]
    reason: str
    message: str
    wall_time_sec: float
    cpu_time_sec: float
    memory_mb: Annotated[int, "Measured; 0: unknown."]
    memory_asked_mb: int
    log_tail: str


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """A node with its attempts, resources and HTCondor ids."""

    group: str
    node: str
    role: str
    status: str
    site: str
    as_of: Annotated[int, "When DAGMan wrote the status (epoch); 0: it has not begun."]
    asked: Resources
    job_ids: Annotated[list[str], f"HTCondor's ids of all its jobs, newest last, at most {MAX_JOB_IDS}."]
    attempts: Annotated[list[NodeAttempt], "Attempts that have ended, oldest first."]


def read_node(directory: Path, *, group: str, node: str) -> NodeDetail:
    """Return the node; raise NotFound if the group has none of this name."""
    live = next((one for one in group_nodes(directory, group) if one.node == node), None)
    if live is None:
        raise NotFound(f"{group} has no node {node}")
    return NodeDetail(
        group=group,
        node=node,
        role=live.role,
        status=live.status,
        site=live.site,
        as_of=live.as_of,
        asked=_asked(directory / group, node),
        job_ids=_job_ids(directory / group / f"{GROUP_DAG}.nodes.log", node),
        attempts=_attempts(directory / group, node),
    )


def _attempts(directory: Path, node: str) -> list[NodeAttempt]:
    return [
        NodeAttempt(
            attempt=record.attempt,
            ended_at=record.timestamp,
            job_id=record.job_id,
            site=record.site,
            exit_code=record.exit_code,
            category=record.category,
            action=record.action.replace("_", " "),
            reason=record.reason,
            message=record.error_message,
            wall_time_sec=record.wall_time_sec,
            cpu_time_sec=record.cpu_time_sec,
            memory_mb=record.memory_mb,
            memory_asked_mb=record.memory_asked_mb,
            log_tail=record.log_tail,
        )
        for record in read_records(directory, node)
    ]


def _asked(directory: Path, node: str) -> Resources:
    """Return the resources in the DAG, or as raised later."""
    line = re.search(rb"^VARS %s .*$" % node.encode(), _content(directory / GROUP_DAG), re.MULTILINE)
    given = re.findall(rb'\b([A-Z]+)="(\d{1,12})"', line[0]) if line else []
    found = {_VARIABLES[name.decode()]: int(value) for name, value in given if name.decode() in _VARIABLES}
    pattern = rb"^(\w+)_%s = (\d{1,12})$" % node.encode()
    for name, value in re.findall(pattern, _content(directory / RAISED), re.MULTILINE):
        if (resource := _RAISED.get(name.decode())) is not None:
            found[resource] = max(found.get(resource, 0), int(value))
    return Resources(**found)


def _job_ids(log: Path, node: str) -> list[str]:
    """Return the ids of the node's jobs from the submit events of the event log."""
    pattern = rb"^000 \((\d+)\.(\d+)\.\d+\) [^\n]*\n(?:[ \t][^\n]*\n)*?\s+DAG Node: %s\n" % node.encode()
    found = re.findall(pattern, _content(log), re.MULTILINE)
    return [f"{int(cluster)}.{int(job)}" for cluster, job in found[-MAX_JOB_IDS:]]


def _content(path: Path) -> bytes:
    """Return the end of a file, empty if it cannot be read."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - MAX_LOG_BYTES))
            return handle.read(MAX_LOG_BYTES)
    except OSError:
        return b""
