"""The payload kind `command`: a program of the request, run without a shell for the events of a job.

The contract is in docs/payloads.md: the JSON file $WMS2_JOB describes the work, the program writes the output
files named there and may describe what it did in the JSON file $WMS2_REPORT and in a FrameworkJobReport.xml
in its working directory. The files are read when none of its processes is left.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sandbox.claims import planned_lumis
from sandbox.context import Context, Tally, Touched
from sandbox.failure import BAD_CONFIGURATION, FILE_OPEN, NO_VALID_FJR, JobFailure
from sandbox.fjr import FjrError, JobReport, parse_fjr
from sandbox.jsonfile import SCHEMA, write_json
from sandbox.lumis import union
from sandbox.manifest import InputFile, Job
from sandbox.payloads.base import Kind, Window
from sandbox.payloads.produced import Assumed, produced_facts
from sandbox.payloads.programreport import ProgramReport, read_program_report
from sandbox.program import failed_with, parse_environment, parse_words, run_program
from sandbox.storage import input_url, verified_input
from sandbox.usersandbox import DIGEST_FIELD, SHA256, unpack_user_sandbox

FJR_NAME = "FrameworkJobReport.xml"
STAGE, STREAM = "stage", "stream"


@dataclass(frozen=True)
class Command:
    """The configuration. `inputs`: the program reads local, verified copies or opens the URLs by itself."""

    words: tuple[str, ...]
    inputs: str = STAGE


def read_config(payload: Mapping[str, Any]) -> Command:
    words = parse_words(payload.get("command"), "command")
    parse_environment(payload)
    digest = payload.get(DIGEST_FIELD)
    if digest is not None and not (isinstance(digest, str) and SHA256.fullmatch(digest)):
        raise _refused(DIGEST_FIELD, digest, "a SHA-256 in lower-case hexadecimal digits")
    inputs = payload.get("inputs", STAGE)
    if inputs not in (STAGE, STREAM):
        raise _refused("inputs", inputs, f"{STAGE} or {STREAM}")
    return Command(tuple(words), inputs)


def run_window(context: Context, job: Job, tally: Tally, config: Command, part: int) -> Window:
    """Run the command for the job's events and take over what it wrote."""
    unpack_user_sandbox(context)
    paths = [context.work / f"part{part}.{index}.root" for index in range(len(context.manifest.outputs))]
    task, output = context.work / f"job{part}.json", context.work / f"report{part}.json"
    write_json(task, _task(context, job, config, paths))
    fjr_path = context.work / FJR_NAME
    with suppress(OSError):
        fjr_path.unlink()
    words = list(config.words)
    status = run_program(context, words, {"WMS2_JOB": str(task), "WMS2_REPORT": str(output)})
    tally.note = "payload: it left processes behind, which were ended" if context.tree.left_behind else ""
    report, fjr = read_program_report(output, status), _read_fjr(fjr_path, status)
    _check(words[0], status, report, fjr)
    read = _note_read(job, tally, report, fjr)
    assumed = Assumed(read, planned_lumis([job], context.manifest) or {})
    parts = tuple(
        (path, produced_facts(context, path, report.output(index), assumed))
        for index, path in enumerate(paths)
    )
    return Window(events_read=read, lumis=union(one.lumis for _, one in parts), parts=parts)


def _task(context: Context, job: Job, config: Command, paths: list[Path]) -> dict[str, Any]:
    manifest = context.manifest
    first = job.generate.first_event if job.generate else job.files[0].first_event if job.files else 0
    outputs = zip(manifest.outputs, paths)
    return {
        "schema": SCHEMA,
        "request": manifest.request_name,
        "node": job.node,
        "site": context.site,
        "attempt": context.attempt,
        "threads": manifest.cores,
        "memory_mb": context.memory_mb,
        "seed": seed_of(manifest.workflow_id, job.node, first),
        "inputs": [_input(context, file, config) for file in job.files],
        "mask": job.mask,
        "generate": asdict(job.generate) if job.generate else None,
        "outputs": [{"dataset": output.dataset, "path": str(path)} for output, path in outputs],
    }


def seed_of(workflow_id: str, node: str, first_event: int) -> int:
    """Return a seed from 1 to 900,000,000 that is the same in every attempt."""
    digest = hashlib.blake2b(f"{workflow_id} {node} {first_event}".encode("ascii"), digest_size=8).digest()
    return 1 + int.from_bytes(digest, "big") % 900_000_000


def _input(context: Context, file: InputFile, config: Command) -> dict[str, Any]:
    path = None
    if config.inputs == STAGE:
        path = str(verified_input(context, file.lfn, file.size_bytes, file.adler32))
    return {
        "lfn": file.lfn,
        "path": path,
        "url": input_url(context, file.lfn),
        "events": file.events,
        "first_event": file.first_event,
        "last_event": file.last_event,
        "mask": file.mask,
    }


def _note_read(job: Job, tally: Tally, report: ProgramReport, fjr: JobReport | None) -> int:
    """Add what was read to the tally and return the events; what the program does not report was all read."""
    for file in job.files:
        before = tally.inputs.get(file.lfn, Touched(0, {}))
        window = file.last_event - file.first_event + 1
        events = window if report.inputs is None else report.inputs.get(file.lfn, 0)
        tally.inputs[file.lfn] = Touched(before.events + events, before.lumis)
    read = job.window_events
    if report.inputs is not None and job.files:
        read = sum(report.inputs.get(lfn, 0) for lfn in {file.lfn for file in job.files})
    elif fjr and fjr.events_read:
        read = fjr.events_read
    tally.events_read += read
    return read


def _read_fjr(path: Path, status: int) -> JobReport | None:
    """Return the framework job report. Only a command that failed may leave it incomplete."""
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
    """Return whether there is a report. Raises FjrError for a link, pipe or directory in its place."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise FjrError(f"framework job report: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise FjrError("framework job report: not a regular file")
    return True


def _check(program: str, status: int, report: ProgramReport, fjr: JobReport | None) -> None:
    code = (fjr.exit_code if fjr else 0) or report.exit_code
    skipped: Sequence[str] = [*(lfn for lfn in (fjr.skipped_files if fjr else ()) if lfn), *report.bad_inputs]
    if status or code:
        message = fjr.errors[0].text if fjr and fjr.errors else report.error
        failure = failed_with(program, status, message or "no framework error was reported", code=code)
        raise JobFailure(failure.code, failure.message, bad_inputs=skipped)
    if skipped:
        raise JobFailure(FILE_OPEN, f"{program} skipped input: {', '.join(skipped)}", bad_inputs=skipped)


def _refused(field: str, value: object, expected: str) -> JobFailure:
    return JobFailure(BAD_CONFIGURATION, f"payload: {field}: {value!r:.80} is not {expected}")


KIND = Kind(
    name="command",
    section="command",
    merge_tool="root",
    read_config=read_config,
    run_window=run_window,
)
