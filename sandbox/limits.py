"""Raised limits of memory, time or disk for a node that ran out: lines of a file included by submit files.

The group's landing creates the file, because an absent include stops DAGMan. Lines are only appended, each
in one write, so that nodes that fail at the same time do not lose lines; the last line of a node counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

FILE = Path("raised.inc")
DAG = Path("group.dag")
MAX_BYTES = 64 * 1024 * 1024


class _Kind(NamedTuple):
    name: str  # in the file and in records
    variable: str  # in the DAG
    unit: str
    percent: int  # of the previous request


class Resource(Enum):
    """Resources for whose excess a job is killed."""

    MEMORY = _Kind("memory", "MEM", "MB", 150)
    WALL_TIME = _Kind("wall_time", "WALL", "minutes", 200)
    DISK = _Kind("disk", "DISK", "kB", 200)


@dataclass(frozen=True)
class Limit:
    """Request of an attempt, and the ceiling of the next; 0 = unknown."""

    resource: Resource
    requested: int = 0
    ceiling: int = 0

    @property
    def known(self) -> bool:
        return self.requested > 0 and self.ceiling > 0

    @property
    def next(self) -> int | None:
        """The next request, up to the ceiling; None if it is reached."""
        if not self.known or self.requested >= self.ceiling:
            return None
        return min(-(-self.requested * self.resource.value.percent // 100), self.ceiling)


Limits = Mapping[Resource, Limit]
UNKNOWN_LIMITS: Limits = {resource: Limit(resource) for resource in Resource}


def read_limits(node: str, ceilings: Mapping[Resource, int]) -> Limits:
    """Return what the last attempt requested: the DAG's values, or as raised by an earlier failure."""
    name = node.encode("ascii")
    dag, raised = _content(DAG), _content(FILE)
    found = {}
    for resource, ceiling in ceilings.items():
        kind = resource.value
        planned = _numbers(dag, rb'^VARS %s .*?\b%s="([0-9]{1,12})"' % (name, kind.variable.encode()))
        added = _numbers(raised, rb"^%s_%s = ([0-9]{1,12})$" % (kind.name.encode(), name))
        asked = max([*planned[:1], *added[-1:]]) if planned else 0
        found[resource] = Limit(resource, asked, ceiling)
    return found


def _content(path: Path) -> bytes:
    try:
        with open(path, "rb") as handle:
            return handle.read(MAX_BYTES)
    except OSError:
        return b""


def _numbers(content: bytes, pattern: bytes) -> list[int]:
    return [int(found) for found in re.findall(pattern, content, re.MULTILINE)]


def raise_limit(node: str, name: str, amount: int) -> None:
    """Make the node's next submissions request this much."""
    with open(FILE, "ab", buffering=0) as handle:
        handle.write(b"%s_%s = %d\n" % (name.encode("ascii"), node.encode("ascii"), amount))
