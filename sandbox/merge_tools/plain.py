"""The merge tools `concat` and `copy`: bytes are joined or copied, and nothing is known of their content."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from sandbox.atomic import replacing
from sandbox.context import Context
from sandbox.failure import BAD_CONFIGURATION, JobFailure
from sandbox.merge_tools.base import MergeTool, UnreadableFile
from sandbox.storage.base import CHUNK_BYTES


def concat(_context: Context, inputs: Sequence[Path], target: Path) -> None:
    with replacing(target) as joined:
        for path in inputs:
            try:
                with open(path, "rb") as source:
                    shutil.copyfileobj(source, joined, CHUNK_BYTES)
            except OSError as error:
                if error.filename != str(path):
                    raise
                raise UnreadableFile(path, str(error.strerror)) from error


def copy(context: Context, inputs: Sequence[Path], target: Path) -> None:
    if len(inputs) != 1:
        raise JobFailure(
            BAD_CONFIGURATION,
            f"payload: merge: tool: copy cannot join the files of {len(inputs)} jobs; name another tool",
        )
    concat(context, inputs, target)


def count_nothing(_context: Context, _path: Path) -> None:
    """Return None: the format is not known."""


CONCAT = MergeTool("concat", concat, count_nothing)
COPY = MergeTool("copy", copy, count_nothing, joins=False)
