"""The merge tool `command`: a program of the request joins the files. The contract is in docs/payloads.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbox.context import Context
from sandbox.failure import OUTPUT_MISSING, JobFailure
from sandbox.jsonfile import SCHEMA, write_json
from sandbox.merge_tools.base import MergeTool
from sandbox.merge_tools.plain import count_nothing
from sandbox.program import failed_with, parse_words, run_program
from sandbox.scratch import regular_file
from sandbox.usersandbox import unpack_user_sandbox


def check(merge: Mapping[str, Any]) -> None:
    parse_words(merge.get("command"), "merge: command")


def run(context: Context, inputs: Sequence[Path], target: Path) -> None:
    """Run the command with the JSON file $WMS2_MERGE; it must have written the target when it ends."""
    command = parse_words(context.manifest.payload["merge"].get("command"), "merge: command")
    unpack_user_sandbox(context)
    task = context.work / f"{target.name}.json"
    write_json(task, {"schema": SCHEMA, "inputs": [str(path) for path in inputs], "output": str(target)})
    status = run_program(context, command, {"WMS2_MERGE": str(task)})
    if status:
        raise failed_with(command[0], status, "the merge command reported no error")
    try:
        regular_file(target)
    except JobFailure as error:
        raise JobFailure(OUTPUT_MISSING, f"merge: {command[0]} did not write {target.name}") from error


TOOL = MergeTool("command", run, count_nothing, check=check)
