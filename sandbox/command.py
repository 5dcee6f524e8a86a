"""A payload given as a command: run without a shell, told its work by the JSON file $WMS2_JOB.

It must write the output files named there. A FrameworkJobReport.xml in its working directory, beside them, is
read if it writes one. The files are read when none of its processes is left.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sandbox.context import Context, Tally, Touched, wall_time_limit
from sandbox.eventfile import EventFileError, FileFacts, facts
from sandbox.failure import (
    BAD_CONFIGURATION,
    EXECUTABLE_MISSING,
    FILE_OPEN,
    NO_VALID_FJR,
    OUTPUT_MISSING,
    JobFailure,
)
from sandbox.fjr import FjrError, JobReport, parse_fjr
from sandbox.jsonfile import write_json
from sandbox.knobs import read_knobs
from sandbox.lumis import union
from sandbox.manifest import Job
from sandbox.payload import Window
from sandbox.scratch import regular_file
from sandbox.storage import verified_input
from sandbox.tree import Payload

FJR_NAME = "FrameworkJobReport.xml"


def read_command(payload: dict[str, Any]) -> list[str] | None:
    """The command of a payload_config, or None when it has none."""
    command = payload.get("command")
    if command is None:
        return None
    words = isinstance(command, list) and all(isinstance(word, str) and "\0" not in word for word in command)
    if not words or not command or not command[0]:
        raise JobFailure(BAD_CONFIGURATION, f"payload: command: {command!r:.80} is not a list of words")
    return list(command)


def check_payload(payload: dict[str, Any]) -> None:
    """Raises JobFailure if the sandbox would refuse this payload_config in every job."""
    read_knobs(payload)
    read_command(payload)
    wall_time_limit(payload)


def run_command(context: Context, job: Job, tally: Tally, command: list[str], part: int) -> Window:
    """Run the command for the job's events and take over what it wrote."""
    paths = [context.work / f"part{part}.{index}.root" for index in range(len(context.manifest.outputs))]
    task = context.work / f"job{part}.json"
    write_json(task, _task(context, job, paths))
    report_path = context.work / FJR_NAME
    with suppress(OSError):
        report_path.unlink()
    status = _run(command, context, task)
    tally.note = "payload: it left processes behind, which were ended" if context.tree.left_behind else ""
    report = _read_fjr(report_path, status)
    _check(command[0], status, report)
    parts = tuple((path, _output_facts(path)) for path in paths)
    planned = sum(file.last_event - file.first_event + 1 for file in job.files)
    if job.generate is not None:
        planned = job.generate.last_event - job.generate.first_event + 1
    read = report.events_read if report and report.events_read else planned
    tally.events_read += read
    for file in job.files:
        before = tally.inputs.get(file.lfn, Touched(0, {}))
        tally.inputs[file.lfn] = Touched(before.events + file.last_event - file.first_event + 1, before.lumis)
    return Window(events_read=read, lumis=union(one.lumis for _, one in parts), parts=parts)


def _task(context: Context, job: Job, paths: list[Path]) -> dict[str, Any]:
    inputs: list[dict[str, Any]] = []
    for file in job.files:
        path = verified_input(context, file.lfn, file.size_bytes, file.adler32)
        window = {"first_event": file.first_event, "last_event": file.last_event}
        inputs.append({"lfn": file.lfn, "pfn": str(path), **window})
    outputs = [
        {"dataset": output.dataset, "path": str(paths[index])}
        for index, output in enumerate(context.manifest.outputs)
    ]
    return {
        "node": job.node,
        "threads": context.manifest.cores,
        "inputs": inputs,
        "mask": job.mask,
        "generate": asdict(job.generate) if job.generate else None,
        "outputs": outputs,
    }


def _run(command: list[str], context: Context, task: Path) -> int:
    environment = {**os.environ, "WMS2_JOB": str(task)}
    try:
        status = context.tree.run(Payload(command, context.work, environment), context.deadline)
    except OSError as error:
        raise JobFailure(EXECUTABLE_MISSING, f"payload: command: {command[0]}: {error.strerror}") from error
    if status is None:
        raise context.out_of_time(command[0])
    return status


def _read_fjr(path: Path, status: int) -> JobReport | None:
    """A command that says it succeeded must have finished its report; a failed one may have been killed."""
    try:
        report = parse_fjr(path) if _is_file(path) else None
        if report and not report.complete and status == 0:
            raise FjrError("framework job report: ends before its last element does")
    except FjrError as error:
        if status:
            return None
        raise JobFailure(NO_VALID_FJR, f"payload: {error}") from error
    return report


def _is_file(path: Path) -> bool:
    """Is there a report? Raises FjrError for a link, pipe or directory in its place."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise FjrError(f"framework job report: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise FjrError("framework job report: not a regular file")
    return True


def _check(program: str, status: int, report: JobReport | None) -> None:
    code = report.exit_code if report else 0
    if status or code:
        told = report.errors[0].text if report and report.errors else "no framework error was reported"
        shown = f"signal {-status}" if status < 0 else f"status {status}"
        raise JobFailure(
            code or (128 - status if status < 0 else status),
            f"{program} ended with {shown}: {told}",
            bad_inputs=[lfn for lfn in report.skipped_files if lfn] if report else [],
        )
    if report and report.skipped_files:
        skipped = ", ".join(report.skipped_files)
        raise JobFailure(FILE_OPEN, f"{program} skipped input: {skipped}", bad_inputs=report.skipped_files)


def _output_facts(path: Path) -> FileFacts:
    try:
        return facts(regular_file(path))
    except (OSError, EventFileError) as error:
        raise JobFailure(OUTPUT_MISSING, f"payload: output {path.name} is not usable: {error}") from error
