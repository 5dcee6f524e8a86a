"""The merge tool `root`: ROOT files joined by `hadd` where a node has it, else by `rootfiles`."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandbox.context import Context
from sandbox.failure import BAD_CONFIGURATION, FILE_READ, JobFailure
from sandbox.filefacts import Counts
from sandbox.jsonfile import Fields
from sandbox.merge_tools.base import MergeTool, UnreadableFile
from sandbox.roottool import MAX_SEC, RootToolError, find_python, run_rootfiles
from sandbox.tree import Payload

HADD = "hadd"


def merge(context: Context, inputs: Sequence[Path], target: Path) -> list[Counts] | None:
    """Join the files; with `hadd` they are not counted one by one."""
    if shutil.which(HADD):
        _hadd(context, inputs, target)
        return None
    result = _run(context, "merge", {"sources": [str(path) for path in inputs], "target": str(target)})
    return [parse_counts(one) for one in Fields(result, "merge").children("sources")]


def inspect(context: Context, path: Path) -> Counts | None:
    """Count the file; None on a node that has `hadd` and no Python with uproot."""
    if not find_python() and shutil.which(HADD):
        return None
    return parse_counts(Fields(_run(context, "inspect", {"source": str(path)}), "inspect"))


def parse_counts(fields: Fields) -> Counts:
    counted = fields.raw.get("lumi_events") is not None
    return Counts(fields.integer("events"), fields.lumi_events("lumi_events") if counted else None)


def _run(context: Context, action: str, task: dict[str, Any]) -> dict[str, Any]:
    try:
        return run_rootfiles(context, action, task)
    except RootToolError as error:
        if error.source:
            raise UnreadableFile(Path(error.source), f"{error.kind}: {error.message}") from error
        raise JobFailure(BAD_CONFIGURATION, f"merge: {error.kind}: {error.message}") from error


def _hadd(context: Context, inputs: Sequence[Path], target: Path) -> None:
    program = Payload([HADD, "-f", str(target), *map(str, inputs)], context.work, os.environ)
    status = context.tree.run_own(program, time.monotonic() + MAX_SEC)
    if status != 0:
        shown = "was ended" if status is None else f"ended with status {status}"
        raise JobFailure(FILE_READ, f"hadd {shown}; its messages are in the job's output")


TOOL = MergeTool("root", merge, inspect)
