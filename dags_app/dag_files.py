"""A DAG as its DAGMans' files show it now: nodes, and where the logs are. Reads only, and never too much."""

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
MAX_GROUPS_READ = 500  # per page: a rare status must not make one page read a hundred thousand files
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
class Wanted:
    """Which nodes; empty means any."""

    statuses: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()

    def takes(self, node: LiveNode) -> bool:
        """Is this one asked for?"""
        return (not self.statuses or node.status in self.statuses) and (
            not self.roles or node.role in self.roles
        )


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page begins: a group and how many of its nodes come before."""

    group: int = 0
    skip: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Some nodes, and where the next page begins; None at the end."""

    nodes: list[LiveNode]
    next: Position | None


def read_page(directory: Path, groups: Sequence[str], wanted: Wanted, *, start: Position, size: int) -> Page:
    """The next nodes that are wanted, group by group; a page may end early rather than read too much."""
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
    """Every node of one group; those its DAGMan has not spoken of are not ready."""
    try:
        jobs = _JOB_LINE.findall((directory / group / GROUP_DAG).read_text("ascii"))
    except (OSError, ValueError):
        return
    try:
        reading = read_status(directory / group / f"{GROUP_DAG}.status")
    except UnreadableFile:
        reading = None
    states = reading.status.nodes if reading is not None else {}
    written = reading.status.written_at if reading is not None else 0
    site = elected_site(directory / group)
    for name, submit_file in jobs:
        role = Role.PROCESSING.value if submit_file == "proc" else submit_file
        status = states.get(name, NodeState.NOT_READY).name.lower()
        yield LiveNode(group=group, node=name, role=role, status=status, site=site, as_of=written)


def log_paths(directory: Path, *, group: str = "", node: str = "") -> dict[str, Path]:
    """Where DAGMan, or a node's last attempt, writes. Names are checked: they become part of a path."""
    if not re.fullmatch(GROUP_NAME, group or "mg_000000") or not re.fullmatch(NODE_NAME, node or "merge"):
        return {}
    if node:
        return {"out": directory / group / f"{node}.out", "err": directory / group / f"{node}.err"}
    dag = directory / group / GROUP_DAG if group else directory / OUTER_DAG
    kinds = ("dagman.out", "dagman.log", "nodes.log", "status")
    return {kind.replace(".", "_"): dag.with_name(f"{dag.name}.{kind}") for kind in kinds}


def read_tail(path: Path, *, lines: int) -> str | None:
    """The last lines of a file, at most so many bytes of them; None if it is not there."""
    try:
        with path.open("rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            handle.seek(max(0, size - MAX_TAIL_BYTES))
            text = handle.read(MAX_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return None
    return "\n".join(text.splitlines()[-lines:])
