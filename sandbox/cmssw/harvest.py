"""Harvesting: one cmsRun reads the histograms of all its input and saves them in one file.

Files of histograms have no events that cmsRun could count or skip, so a job reads all of its input at once
and is taken to have read what was planned. The saver chooses the name of the file, by dataset and run.
"""

from __future__ import annotations

from pathlib import Path

from sandbox.cmssw.config import SAVER
from sandbox.cmssw.pieces import Piece
from sandbox.context import Tally, Touched
from sandbox.failure import BAD_CONFIGURATION, OUTPUT_MISSING, JobFailure
from sandbox.filefacts import FileFacts, checksum
from sandbox.lumis import Lumis
from sandbox.manifest import Job
from sandbox.scratch import regular_file

SAVED = "DQM_V*.root"


def whole_window(job: Job, lumis: Lumis | None) -> Piece:
    """Return all files of the job as one piece, with the planned lumis if any of them are masked."""
    files = {file.lfn: file for file in job.files}
    masked = job.mask is not None or any(file.mask is not None for file in job.files)
    if not files or (masked and lumis is None):
        message = "payload: cmssw: harvest needs files of which the lumis are known"
        raise JobFailure(BAD_CONFIGURATION, message)
    return Piece(files=tuple(files.values()), mask=lumis if masked else None)


def note_read(job: Job, tally: Tally) -> int:
    """Add what was planned to the tally and return its events."""
    left = job.events
    for file in job.files:
        events = min(left, file.last_event - file.first_event + 1)
        before = tally.inputs.get(file.lfn, Touched(0, {}))
        tally.inputs[file.lfn] = Touched(before.events + events, before.lumis)
        left -= events
    read = job.events - left
    tally.events_read += read
    return read


def keep_saved(directory: Path, target: Path, events: int, lumis: Lumis) -> tuple[Path, FileFacts]:
    """Move the saved file to the target; return it with its facts."""
    found = sorted(directory.glob(SAVED))
    if len(found) != 1:
        message = f"payload: {SAVER} saved {len(found)} files {SAVED}, not one"
        raise JobFailure(OUTPUT_MISSING, message)
    try:
        regular_file(found[0]).replace(target)
        size_bytes, adler32 = checksum(target)
    except OSError as error:
        raise JobFailure(OUTPUT_MISSING, f"payload: {found[0].name}: {error.strerror}") from error
    return target, FileFacts(size_bytes, adler32, events, lumis, {})
