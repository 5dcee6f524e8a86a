"""Files that a test run left in the source tree."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path

State = dict[str, tuple[int, int]]


def snapshot(root: Path) -> State:
    """Return size and time of every file that .gitignore does not exclude."""
    try:
        lines = (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    ignored = [".git", *(line.rstrip("/") for line in lines if line and not line.startswith("#"))]
    found: State = {}
    for directory, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not _matches(name, ignored)]
        for name in (name for name in files if not _matches(name, ignored)):
            path = Path(directory, name)
            info = path.lstat()
            found[str(path.relative_to(root))] = (info.st_size, info.st_mtime_ns)
    return found


def changes(before: State, after: State) -> list[str]:
    """Return the files that were created, changed or removed."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
