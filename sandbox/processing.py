"""A processing node: exactly the planned events, through the payload, to one unmerged file per dataset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sandbox.command import read_command, run_command
from sandbox.context import Context, Tally
from sandbox.eventfile import Event, FileFacts, read_events, write_events
from sandbox.failure import MANIFEST_UNUSABLE, JobFailure
from sandbox.faults import inject_fault
from sandbox.knobs import read_knobs
from sandbox.lumis import union
from sandbox.manifest import Job
from sandbox.payload import Window, run_toy
from sandbox.pilot import run_pilot
from sandbox.report import Output
from sandbox.scratch import regular_file
from sandbox.storage import stage_out


def run_processing(context: Context, tally: Tally) -> None:
    """Raises JobFailure; what was done until then stands in the tally."""
    job = context.manifest.jobs.get(context.node)
    if job is None:
        raise JobFailure(MANIFEST_UNUSABLE, f"jobs.json: jobs: {context.node} is not among them")
    knobs = read_knobs(context.manifest.payload)
    command = read_command(context.manifest.payload)
    inject_fault(context, knobs)

    def run_window(window: Job, part: int) -> Window:
        if command is not None:
            return run_command(context, window, tally, command, part)
        return run_toy(context, window, tally, knobs, part)

    if context.manifest.pilot is None:
        windows = [run_window(job, 0)]
    else:
        threads = context.manifest.cores
        windows, tally.pilot = run_pilot(job, context.manifest.pilot, run_window, threads=threads)
    for index, output in enumerate(context.manifest.outputs):
        lfn = context.manifest.unmerged_lfn(context.node, index)
        path, facts = _joined(context, [window.parts[index] for window in windows], index)
        stage_out(context, path, lfn, facts.adler32)
        # A lumi whose every event was filtered out has been processed all the same.
        lumis = union([facts.lumis, *(window.lumis for window in windows)])
        staged = Output(output.dataset, lfn, facts.size_bytes, facts.adler32, facts.events, lumis)
        tally.outputs.append(staged)
    tally.events_written = max(output.events for output in tally.outputs)


def _joined(context: Context, parts: list[tuple[Path, FileFacts]], index: int) -> tuple[Path, FileFacts]:
    if len(parts) == 1:
        return parts[0]

    def events() -> Iterator[Event]:
        for path, _ in parts:
            yield from read_events(regular_file(path))

    joined = context.work / f"joined.{index}.root"
    return joined, write_events(joined, events())
