"""Nodes and log paths of a DAG, read from the files of its DAGMans, with bounded effort."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from condor.dagtext import GROUP_DAG, OUTER_DAG
from condor.statusfile import read_status
from condor.submitfile import Role
from condor.types import NodeState, UnreadableFile
from sandbox.elect_site import elected_site

MAX_TAIL_BYTES = 64_000
MAX_GROUPS_READ = 500  # per page: searching a rare status could read a hundred thousand files
GROUP_NAME = re.compile(r"mg_[0-9]{6}", re.ASCII)
NODE_NAME = re.compile(r"landing|merge|cleanup|proc_[0-9]{6}", re.ASCII)
_JOB_LINE = re.compile(r"^JOB (\S+) \.\./(\w+)\.sub$", re.MULTILINE | re.ASCII)


@dataclass(frozen=True, slots=True)
class LiveNode:
    """One node as its DAGMan last wrote it."""

    group: str
    node: str
    role: str
    status: str
    site: Annotated[str, "Where the group landed; empty before that."]
    as_of: Annotated[int, "When DAGMan wrote it (epoch); 0: it has not begun."]


@dataclass(frozen=True, slots=True)
class GroupStates:
    """States of a group's nodes that its DAGMan has reported, by name."""

    of_nodes: dict[str, NodeState]
    as_of: int  # epoch; 0: it has not begun


@dataclass(frozen=True, slots=True)
class Wanted:
    """Filter of nodes; empty sets match all."""

    statuses: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()

    def takes(self, node: LiveNode) -> bool:
        """Return whether the node matches."""
        return (not self.statuses or node.status in self.statuses) and (
            not self.roles or node.role in self.roles
        )


@dataclass(frozen=True, slots=True)
class Position:
    """Start of a page: a group, and how many of its nodes to skip."""

    group: int = 0
    skip: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """A page of nodes, and the start of the next one; None at the end."""

    nodes: list[LiveNode]
    next: Position | None


def read_page(directory: Path, groups: Sequence[str], wanted: Wanted, *, start: Position, size: int) -> Page:
    """Return the next nodes that match, group by group; a page may end early to limit the files read."""
    found: list[LiveNode] = []
    for number in range(start.group, len(groups)):
        if number - start.group >= MAX_GROUPS_READ:
            return Page(found, Position(group=number))
        begin = start.skip if number == start.group else 0
        for skip, node in enumerate(group_nodes(directory, groups[number])):
            if skip < begin or not wanted.takes(node):
                continue
            if len(found) == size:
                return Page(found, Position(group=number, skip=skip))
            found.append(node)
    return Page(found, None)


def group_nodes(directory: Path, group: str) -> Iterator[LiveNode]:
    """Yield every node of a group; nodes that its DAGMan has not reported are not ready."""
    jobs = _job_lines(directory / group)
    found = group_states(directory, group) if jobs else GroupStates({}, 0)
    site = elected_site(directory / group) if jobs else ""
    for name, submit_file in jobs:
        role = Role.PROCESSING.value if submit_file == "proc" else submit_file
        status = found.of_nodes.get(name, NodeState.NOT_READY).name.lower()
        yield LiveNode(group=group, node=name, role=role, status=status, site=site, as_of=found.as_of)


def node_names(directory: Path, group: str) -> list[str]:
    """Return the names of a group's nodes in the order of its DAG file; none before that is written."""
    return [name for name, _ in _job_lines(directory / group)]


def group_states(directory: Path, group: str) -> GroupStates:
    """Return the node states that the group's DAGMan last wrote; none if it has not begun."""
    try:
        reading = read_status(directory / group / f"{GROUP_DAG}.status")
        states = dict(reading.status.nodes) if reading is not None else {}
    except UnreadableFile:
        reading, states = None, {}
    return GroupStates(states, reading.status.written_at if reading is not None else 0)


def _job_lines(group: Path) -> list[tuple[str, str]]:
    """Return name and submit file of every node of a group."""
    try:
        return _JOB_LINE.findall((group / GROUP_DAG).read_text("ascii"))
    except (OSError, ValueError):
        return []


def log_paths(directory: Path, *, group: str = "", node: str = "") -> dict[str, Path]:
    """Return the log paths of DAGMan or of a node's last attempt; empty if a name is not legal."""
    if not re.fullmatch(GROUP_NAME, group or "mg_000000") or not re.fullmatch(NODE_NAME, node or "merge"):
        return {}
    if node:
        return {"out": directory / group / f"{node}.out", "err": directory / group / f"{node}.err"}
    dag = directory / group / GROUP_DAG if group else directory / OUTER_DAG
    kinds = ("dagman.out", "dagman.log", "nodes.log", "status")
    return {kind.replace(".", "_"): dag.with_name(f"{dag.name}.{kind}") for kind in kinds}


def read_tail(path: Path, *, lines: int) -> str | None:
    """Return the last lines of a file, limited in bytes; None if the file does not exist."""
    try:
        with path.open("rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            handle.seek(max(0, size - MAX_TAIL_BYTES))
            text = handle.read(MAX_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return None
    return "\n".join(text.splitlines()[-lines:])
