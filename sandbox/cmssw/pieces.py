"""Division of a job's window into pieces that the parameters of one cmsRun can express. Pure.

cmsRun skips and counts events over all files of its input, after the mask, and begins a lumi section with its
first generated event. A window that needs more than that is split: one cmsRun for each piece, in order. Of a
file that is read with a mask, a window counts the events that pass it; windows that cover a file once cover
each of these events once. Usually there is one piece.
"""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.lumis import Lumis
from sandbox.manifest import Generate, InputFile, Job

ALL_EVENTS = -1


@dataclass(frozen=True)
class Piece:
    """The events of one cmsRun: `events` after `skip`, or generated ones from `first_event` on."""

    files: tuple[InputFile, ...] = ()
    mask: Lumis | None = None
    skip: int = 0
    events: int = ALL_EVENTS
    generates: bool = False
    run: int = 1
    first_event: int = 1
    first_lumi: int = 1
    events_per_lumi: int = 1

    @property
    def identity(self) -> str:
        """A key that no other piece of the workflow has."""
        if self.generates:
            return f"{self.run} {self.first_event}"
        return f"{self.files[0].lfn} {self.files[0].first_event}"


def split_window(job: Job) -> tuple[Piece, ...]:
    """Return the pieces of a job's window, in the order of its events."""
    if job.generate is not None:
        return _generated(job.generate)
    pieces: list[Piece] = []
    for file in job.files:
        mask = job.mask if file.mask is None else file.mask
        if pieces and _continues(pieces[-1], file, mask):
            pieces[-1] = _read((*pieces[-1].files, file), mask)
        else:
            pieces.append(_read((file,), mask))
    return tuple(pieces)


def _generated(plan: Generate) -> tuple[Piece, ...]:
    """Return the pieces of a generated window. One that begins inside a lumi section completes it first."""
    per_lumi, first = plan.events_per_lumi, plan.first_event
    into = (first - plan.numbering_from) % per_lumi
    ends = [plan.last_event]
    if into and first + per_lumi - into <= plan.last_event:
        ends.insert(0, first + per_lumi - into - 1)
    pieces = []
    for last in ends:
        pieces.append(
            Piece(
                events=last - first + 1,
                generates=True,
                run=plan.run,
                first_event=first,
                first_lumi=plan.first_lumi + (first - plan.numbering_from) // per_lumi,
                events_per_lumi=per_lumi,
            )
        )
        first = last + 1
    return tuple(pieces)


def _continues(piece: Piece, file: InputFile, mask: Lumis | None) -> bool:
    """Return whether cmsRun may read the file directly after those of the piece."""
    before = piece.files[-1]
    if mask != piece.mask or file.lfn in {one.lfn for one in piece.files}:
        return False
    if mask is None:
        return before.last_event == before.events - 1 and file.first_event == 0
    return is_whole_file(file) and all(map(is_whole_file, piece.files))


def _read(files: tuple[InputFile, ...], mask: Lumis | None) -> Piece:
    whole = mask is not None and all(map(is_whole_file, files))
    events = sum(file.last_event - file.first_event + 1 for file in files)
    return Piece(
        files=files,
        mask=mask,
        skip=files[0].first_event,
        events=ALL_EVENTS if whole or not events else events,
    )


def is_whole_file(file: InputFile) -> bool:
    return file.first_event == 0 and file.last_event == file.events - 1
