"""Free space of the submit host. Without it DAGs are written incompletely and HTCondor cannot log."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """Free space on the file system of a directory; `inodes` is None if there is no limit."""

    directory: str
    free_bytes: int
    inodes: int | None

    @property
    def shortage(self) -> str:
        """The missing space with the free and the required amount; empty if there is enough."""
        wanted, files = settings.MIN_FREE_BYTES, settings.MIN_FREE_INODES
        if self.free_bytes < wanted:
            return f"{self.directory} has {_megabytes(self.free_bytes)} free, {_megabytes(wanted)} are needed"
        if self.inodes is not None and self.inodes < files:
            return f"{self.directory} has {self.inodes} free inodes, {files} are needed"
        return ""

    def as_json(self) -> dict[str, Any]:
        """Return the evidence of the gate."""
        return {
            "directory": self.directory,
            "free_bytes": self.free_bytes,
            "needed_bytes": settings.MIN_FREE_BYTES,
            "free_inodes": self.inodes,
            "needed_inodes": settings.MIN_FREE_INODES,
        }


def measure() -> list[FreeSpace]:
    """Return the free space of the submit root and, if set, the state directory."""
    return [_measured(path) for path in (settings.SUBMIT_ROOT, settings.STATE_DIR) if path]


def short_of_space() -> list[FreeSpace]:
    """Return the directories with too little free space for another DAG."""
    return [one for one in measure() if one.shortage]


def describe(short: list[FreeSpace]) -> str:
    """Describe the shortages; empty if there are none."""
    return "; ".join(one.shortage for one in short)


def _measured(directory: str) -> FreeSpace:
    place = next(path for path in (Path(directory), *Path(directory).parents) if path.exists())
    found = os.statvfs(place)  # a missing directory will be on the file system of its parent
    inodes = found.f_favail if found.f_files else None
    return FreeSpace(directory, found.f_bavail * found.f_frsize, inodes)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
