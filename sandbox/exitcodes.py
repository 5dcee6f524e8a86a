"""The table of CMS exit codes, `exit_codes.csv`: class, retry advice, tags and reason of each code.

The table is the only list of codes: code that treats some codes alike asks for a tag. `failure.py` names the
codes that WMS2 itself raises.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from sandbox.limits import Resource

TABLE = Path(__file__).with_name("exit_codes.csv")
TRANSIENT, PERMANENT, DATA, INFRASTRUCTURE = "transient", "permanent", "data", "infrastructure"
CLASSES = frozenset({TRANSIENT, PERMANENT, DATA, INFRASTRUCTURE})
NEARLY_ALL = 0.8  # of the requested memory


class Tag(Enum):
    """A property that several exit codes share."""

    MEMORY = "memory"  # out of memory: more of it may help
    WALL_TIME = "wall_time"  # over the wall time
    DISK = "disk"  # over the disk space
    SILENT = "silent"  # killed without a message: out of the resource only if nearly all of it was used
    CORRUPT = "corrupt"  # the input file itself is bad
    OPEN = "open"  # an input file could not be opened
    LOST = "lost"  # from a merge: the files of its jobs are missing or not as reported
    SET_UP = "set-up"  # the files that start every job may be broken on the submit host
    PAYLOAD = "payload"  # the plan or the payload configuration may be broken on the submit host
    SITE = "site"  # caused by the site, regardless of the class
    OURS = "ours"  # WMS2 planned, configured or equipped the job wrongly
    VAGUE = "vague"  # has many causes: the message distinguishes them


class Fault(Enum):
    """Party that must act on a failure."""

    USER = "user"
    SITE = "site"
    DATA = "data"
    WMS2 = "wms2"


@dataclass(frozen=True)
class Row:
    category: str
    advice: str
    reason: str
    tags: frozenset[Tag] = frozenset()


@lru_cache(maxsize=1)
def exit_codes() -> dict[int, Row]:
    """Read the table. Raises ValueError for an unknown class or tag."""
    with open(TABLE, encoding="utf-8", newline="") as handle:
        return {int(row["code"]): _row(row) for row in csv.DictReader(handle)}


def _row(row: dict[str, str]) -> Row:
    if row["class"] not in CLASSES:
        raise ValueError(f"{TABLE.name}: {row['code']}: {row['class']!r} is not one of {sorted(CLASSES)}")
    return Row(row["class"], row["retry"], row["reason"], frozenset(map(Tag, row["tags"].split())))


def row_of(code: int) -> Row:
    """Return the row of a code, or a substitute for a code that is not in the table."""
    known = exit_codes().get(code)
    if known is not None:
        return known
    vague = frozenset({Tag.VAGUE})
    if 128 < code <= 192:
        return Row(INFRASTRUCTURE, "yes", f"killed by signal {code - 128}", vague)
    return Row(TRANSIENT, "yes", f"exit code {code} is not in the table", vague)


def tagged(tag: Tag) -> frozenset[int]:
    """Return the codes with this tag."""
    return frozenset(code for code, row in exit_codes().items() if tag in row.tags)


def has_tag(code: int, tag: Tag) -> bool:
    return tag in row_of(code).tags


def fault_of(code: int) -> Fault:
    """Return whose fault a failure with this code is."""
    row = row_of(code)
    if Tag.OURS in row.tags:
        return Fault.WMS2
    if row.category == DATA:
        return Fault.DATA
    return Fault.SITE if row.category == INFRASTRUCTURE or Tag.SITE in row.tags else Fault.USER


def ran_out_of(code: int, *, used_mb: int, requested_mb: int) -> Resource | None:
    """Return the resource that a job with this exit code ran out of; None if it failed otherwise."""
    tags = row_of(code).tags
    if Tag.SILENT in tags and not used_mb >= NEARLY_ALL * requested_mb > 0:
        return None
    return next((resource for resource in Resource if Tag(resource.value.name) in tags), None)
