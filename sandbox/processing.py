"""A processing node: exactly the planned events, through the payload, to one unmerged file per dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sandbox.context import Context, Tally
from sandbox.failure import MANIFEST_UNUSABLE, OUTPUT_MISSING, JobFailure
from sandbox.filefacts import FileFacts, checksum
from sandbox.lumis import union
from sandbox.manifest import Job, PilotSettings
from sandbox.merge_tools import UnreadableFile
from sandbox.payloads import Window
from sandbox.pilot import run_pilot
from sandbox.registry import start_payload
from sandbox.report import Output
from sandbox.scratch import regular_file
from sandbox.storage import stage_out


def run_processing(context: Context, tally: Tally) -> None:
    """Raises JobFailure; what was done until then stands in the tally."""
    job = context.manifest.jobs.get(context.node)
    if job is None:
        raise JobFailure(MANIFEST_UNUSABLE, f"jobs.json: jobs: {context.node} is not among them")
    kind, config = start_payload(context)

    def run_window(window: Job, part: int) -> Window:
        return kind.run_window(context, window, tally, config, part)

    if context.manifest.pilot is None:
        windows = [run_window(job, 0)]
    else:
        settings, threads = _pilot_settings(context, job, context.manifest.pilot), context.manifest.cores
        windows, tally.pilot = run_pilot(job, settings, run_window, threads=threads)
    for index, output in enumerate(context.manifest.outputs):
        lfn = context.manifest.unmerged_lfn(context.node, index)
        path, facts = _joined(context, [window.parts[index] for window in windows], index)
        stage_out(context, path, lfn, facts.adler32)
        # A lumi whose every event was filtered out has been processed all the same.
        lumis = union([facts.lumis, *(window.lumis for window in windows)])
        staged = Output(output.dataset, lfn, facts.size_bytes, facts.adler32, facts.events, lumis)
        tally.outputs.append(staged)
    tally.events_written = max(output.events for output in tally.outputs)


def _pilot_settings(context: Context, job: Job, settings: PilotSettings) -> PilotSettings:
    """Return the pilot's settings; one window of all events if the files of several could not be joined."""
    if context.merge_tool.joins:
        return settings
    return replace(settings, initial_events=max(job.window_events, 1))


def _joined(context: Context, parts: list[tuple[Path, FileFacts]], index: int) -> tuple[Path, FileFacts]:
    if len(parts) == 1:
        return parts[0]
    joined = context.work / f"joined.{index}.root"
    try:
        context.merge_tool.merge(context, [regular_file(path) for path, _ in parts], joined)
        size_bytes, adler32 = checksum(regular_file(joined))
    except UnreadableFile as error:
        message = f"payload: output {error.path.name} is not usable: {error}"
        raise JobFailure(OUTPUT_MISSING, message) from error
    events, lumis = sum(facts.events for _, facts in parts), union(facts.lumis for _, facts in parts)
    return joined, FileFacts(size_bytes, adler32, events, lumis, {})
