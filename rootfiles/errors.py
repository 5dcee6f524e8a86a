"""Errors of ROOT files and tasks."""

from __future__ import annotations

EMPTY = "empty"  # no bytes at all
NOT_ROOT = "not-root"
TRUNCATED = "truncated"  # shorter than its header says
UNREADABLE = "unreadable"  # its bytes cannot be decoded
MISSING_TREE = "missing-tree"
MISSING_BRANCH = "missing-branch"
ENTRIES_DIFFER = "entries-differ"  # not the number of events that the catalogue or the plan says
BRANCHES_DIFFER = "branches-differ"  # not those of the first file
UNSUPPORTED = "unsupported"  # a ROOT file with content that is not merged here
UNREACHABLE = "unreachable"  # the file or server does not answer
BAD_TASK = "bad-task"
OUT_OF_MEMORY = "out-of-memory"


class RootFileError(Exception):
    """`kind` is one of the words above; `source` is the file concerned, '' if it is not one of the inputs."""

    def __init__(self, kind: str, message: str, *, source: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.source = source
