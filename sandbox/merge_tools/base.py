"""The interface of a merge tool: how files of one format are joined and counted.

A tool is listed in `sandbox.merge_tools.TOOLS` or in the `MERGE_TOOLS` of a plugin package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.filefacts import Counts

if TYPE_CHECKING:
    from sandbox.context import Context


class UnreadableFile(Exception):
    """One of the files is not of the tool's format, or not all of a file; `path` is that file."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def _accept(_merge: Mapping[str, Any]) -> None:
    """Accept any configuration: the tool has none of its own."""


@dataclass(frozen=True)
class MergeTool:
    """`merge` writes the inputs in their order, every event once, into the target, in bounded memory.

    It returns what it found in each input, `inspect` what a file holds; both return None if the tool does not
    count events. Both raise UnreadableFile for a bad file and JobFailure for anything else, and neither
    changes or removes an input. A tool that does not join (`joins` False) takes exactly one input. `check`
    validates the tool's part of a payload_config, `merge`.
    """

    name: str
    merge: Callable[[Context, Sequence[Path], Path], Sequence[Counts] | None]
    inspect: Callable[[Context, Path], Counts | None]
    joins: bool = True
    check: Callable[[Mapping[str, Any]], None] = _accept
