"""The interface of a merge tool: how files of one format are joined and counted.

A tool is listed in `sandbox.merge_tools.TOOLS` or in the `MERGE_TOOLS` of a plugin package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.filefacts import Counts

if TYPE_CHECKING:
    from sandbox.context import Context


class UnreadableFile(Exception):
    """One of the files is not of the tool's format, or not all of a file; `path` is that file."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


@dataclass(frozen=True)
class MergeTool:
    """`merge` writes the inputs in their order, every event once, into the target, in bounded memory.

    `inspect` counts a file by reading it and returns None if the tool does not know the format. Both raise
    UnreadableFile for a bad file and JobFailure for anything else. Neither changes or removes an input.
    """

    name: str
    merge: Callable[[Context, Sequence[Path], Path], None]
    inspect: Callable[[Context, Path], Counts | None]
