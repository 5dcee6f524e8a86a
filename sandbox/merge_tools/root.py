"""The merge tool `root`: ROOT files joined by `rootfiles`, by `hadd` what `rootfiles` does not support.

`rootfiles` is as fast and counts the events of each file. `hadd` joins histograms and branches of any type,
and all files on nodes whose Python has no uproot.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from sandbox.context import Context
from sandbox.failure import BAD_CONFIGURATION, EXECUTABLE_MISSING, FILE_READ, JobFailure
from sandbox.filefacts import Counts
from sandbox.jsonfile import Fields
from sandbox.merge_tools.base import MergeTool, UnreadableFile
from sandbox.roottool import MAX_SEC, RootToolError, find_python, log_tail, run_rootfiles
from sandbox.tree import Payload

HADD = "hadd"
UNSUPPORTED = "unsupported"  # the kind of error of files that `rootfiles` does not merge
_KEEP = ("-f", "-fk")  # overwrite the target; copy baskets with the compression they have
_BAD_INPUT = re.compile(r"<hadd>: exiting due to error in (.+)$", re.MULTILINE)


def merge(context: Context, inputs: Sequence[Path], target: Path) -> list[Counts] | None:
    """Join the files; on a node without uproot they are not counted."""
    sources = [str(path) for path in inputs]
    if not find_python() and shutil.which(HADD):
        _hadd(context, sources, target)
        return None
    try:
        result = run_rootfiles(context, "merge", {"sources": sources, "target": str(target)})
    except RootToolError as error:
        if error.kind != UNSUPPORTED or not shutil.which(HADD):
            raise _failure(error) from error
        counts = _inspect(context, sources)
        _hadd(context, sources, target)
        return counts
    return [parse_counts(one) for one in Fields(result, "merge").children("sources")]


def inspect(context: Context, path: Path) -> Counts | None:
    """Count the file; None on a node that has `hadd` and no Python with uproot."""
    if not find_python() and shutil.which(HADD):
        return None
    return _inspect(context, [str(path)])[0]


def parse_counts(fields: Fields) -> Counts:
    counted = fields.raw.get("lumi_events") is not None
    return Counts(fields.integer("events"), fields.lumi_events("lumi_events") if counted else None)


def _inspect(context: Context, sources: Sequence[str]) -> list[Counts]:
    try:
        result = run_rootfiles(context, "inspect", {"sources": sources})
    except RootToolError as error:
        raise _failure(error) from error
    return [parse_counts(one) for one in Fields(result, "inspect").children("sources")]


def _failure(error: RootToolError) -> UnreadableFile | JobFailure:
    if error.source:
        return UnreadableFile(Path(error.source), f"{error.kind}: {error.message}")
    return JobFailure(BAD_CONFIGURATION, f"merge: {error.kind}: {error.message}")


def _hadd(context: Context, sources: Sequence[str], target: Path) -> None:
    """Run `hadd`. Raises UnreadableFile for an input that it names, JobFailure for any other failure."""
    log = context.work / f"{HADD}.log"
    words = ["sh", "-c", 'exec "$@" >"$0" 2>&1', str(log), HADD, *_KEEP, str(target), *sources]
    deadline = time.monotonic() + MAX_SEC if context.deadline is None else context.deadline
    try:
        status = context.tree.run_own(Payload(words, context.work, os.environ), deadline)
    except OSError as error:
        raise JobFailure(EXECUTABLE_MISSING, f"{HADD}: {error.strerror}") from error
    if status is None:
        raise context.out_of_time(HADD)
    if status != 0:
        messages = log_tail(log)
        named = _BAD_INPUT.search(messages)
        if named and named[1] in sources:
            raise UnreadableFile(Path(named[1]), f"{HADD} cannot read it")
        raise JobFailure(FILE_READ, f"{HADD} ended with status {status}: {messages}")


TOOL = MergeTool("root", merge, inspect)
