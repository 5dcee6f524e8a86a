"""More memory for a node that ran out of it: a line in a file that submit files read at every submission.

The group's landing leaves the file, since an absent include stops DAGMan. Lines are only added, each in one
write: nodes that fail at the same time do not lose each other's, and the last line of a node counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FILE = Path("memory.inc")
DAG = Path("group.dag")
MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Memory:
    """What an attempt asked for, and how far the next may go; 0 = not known."""

    requested_mb: int
    ceiling_mb: int

    @property
    def known(self) -> bool:
        return self.requested_mb > 0 and self.ceiling_mb > 0

    @property
    def next_mb(self) -> int | None:
        """Half as much again, but not over the ceiling; None when there is no more to be had."""
        if not self.known or self.requested_mb >= self.ceiling_mb:
            return None
        return min(-(-self.requested_mb * 3 // 2), self.ceiling_mb)


UNKNOWN_MEMORY = Memory(0, 0)


def read_memory(node: str, *, ceiling_mb: int) -> Memory:
    """What the last attempt asked for: the DAG's figure, or what an earlier failure raised it to."""
    name = node.encode("ascii")
    planned = _numbers(DAG, rb'^VARS %s .*?MEM="([0-9]{1,8})"' % name)
    raised = _numbers(FILE, rb"^memory_%s = ([0-9]{1,8})$" % name)
    return Memory(max([*planned[:1], *raised[-1:]]) if planned else 0, ceiling_mb)


def _numbers(path: Path, pattern: bytes) -> list[int]:
    try:
        with open(path, "rb") as handle:
            content = handle.read(MAX_BYTES)
    except OSError:
        return []
    return [int(found) for found in re.findall(pattern, content, re.MULTILINE)]


def raise_memory(node: str, memory_mb: int) -> None:
    """The node's next submissions ask for this much."""
    with open(FILE, "ab", buffering=0) as handle:
        handle.write(b"memory_%s = %d\n" % (node.encode("ascii"), memory_mb))
