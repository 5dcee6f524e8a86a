"""The payload kind `merge`: whole input files are joined unchanged into fewer, larger ones.

Each job joins its files by the request's merge tool (`payload_config.merge.tool`, default `root`), and the
merge node joins the files of the jobs, so that a group becomes one file with every event of its input once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.claims import planned_lumis
from sandbox.context import Context, Tally, Touched
from sandbox.failure import BAD_CONFIGURATION, CLAIM_REFUSED, JobFailure
from sandbox.filefacts import Counts
from sandbox.manifest import InputFile, Job
from sandbox.merge_tools import UnreadableFile
from sandbox.payloads.base import Kind, Window
from sandbox.payloads.produced import Assumed, produced_facts
from sandbox.storage import unreadable, verified_input


def read_config(_payload: Mapping[str, Any]) -> None:
    """Accept any configuration: what is needed is the merge tool, which is checked for every kind."""


def run_window(context: Context, job: Job, tally: Tally, _config: None, part: int) -> Window:
    """Join the job's files into one."""
    _check_whole(context, job)
    target = context.work / f"part{part}.0.root"
    paths = [verified_input(context, file.lfn, file.size_bytes, file.adler32) for file in job.files]
    try:
        counts = context.merge_tool.merge(context, paths, target)
    except UnreadableFile as error:
        blamed = next((file.lfn for file, path in zip(job.files, paths) if path == error.path), "")
        if not blamed:
            raise
        raise unreadable(blamed, str(error)) from error
    read = _note_read(job.files, counts, tally)
    facts = produced_facts(context, target, None, Assumed(read, planned_lumis([job], context.manifest) or {}))
    if facts.events != read:
        message = f"merge: the inputs have {read} events, the joined file has {facts.events}"
        raise JobFailure(CLAIM_REFUSED, message)
    return Window(events_read=read, lumis=facts.lumis, parts=((target, facts),))


def _check_whole(context: Context, job: Job) -> None:
    """Raise JobFailure unless the job reads whole files into one dataset."""
    if len(context.manifest.outputs) != 1:
        raise _refused("writes one output dataset; name a single one")
    whole = all(file.first_event == 0 and file.last_event == file.events - 1 for file in job.files)
    masked = job.mask is not None or any(file.mask is not None for file in job.files)
    if not job.files or not whole or masked:
        raise _refused("reads whole files; use FileBased splitting without a lumi mask")


def _note_read(files: Sequence[InputFile], counts: Sequence[Counts] | None, tally: Tally) -> int:
    """Add the files to the tally and return their events. Raises JobFailure if one differs from its plan."""
    for index, file in enumerate(files):
        found = counts[index] if counts else None
        if found is not None and found.events != file.events:
            raise unreadable(file.lfn, f"holds {found.events} events where {file.events} were planned")
        tally.inputs[file.lfn] = Touched(file.events, (found.lumis if found else None) or {})
    read = sum(file.events for file in files)
    tally.events_read += read
    return read


def _refused(message: str) -> JobFailure:
    return JobFailure(BAD_CONFIGURATION, f"payload: kind: merge {message}")


KIND = Kind(name="merge", merge_tool="root", read_config=read_config, run_window=run_window)
