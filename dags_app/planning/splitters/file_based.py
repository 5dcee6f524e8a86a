"""FileBased: a fixed number of whole files per job, joined in the order of their names as in WMCore.

WMCore does not define the order of jobs: they are ordered by run, so that merge groups mix few runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter

from dags_app.planning.lumis import normalised
from dags_app.planning.parameters import Parameters
from dags_app.planning.selection import Selection
from dags_app.planning.splitters.base import Splitter, first_run, wanted_of
from dags_app.planning.types import FileSpec, FileWindow, JobSpec
from dags_app.states import SplittingAlgo
from sandbox.lumis import Ranges, count

DEFAULT_FILES_PER_JOB = 10
Part = tuple[FileSpec, Ranges | None, int]  # a file, its selected lumis (None: all) and their events


def split_file_based(
    places: Sequence[list[FileSpec]], parameters: Parameters, selection: Selection
) -> Iterator[JobSpec]:
    """Yield jobs of `files_per_job` files each; `total_files` takes the first files by name."""
    per_job = parameters.files_per_job or DEFAULT_FILES_PER_JOB
    wanted = [_wanted(files, selection) for files in places]
    if parameters.total_files is not None:
        names = sorted(file.lfn for parts in wanted for file, _, _ in parts)[: parameters.total_files]
        kept = frozenset(names)
        wanted = [[part for part in parts if part[0].lfn in kept] for parts in wanted]
    for parts in wanted:
        runs = [first_run(file) for file, _, _ in parts]
        starts = range(0, len(parts), per_job)
        for start in sorted(starts, key=lambda start: min(runs[start : start + per_job])):
            yield _job(parts[start : start + per_job])


def _wanted(files: list[FileSpec], selection: Selection) -> list[Part]:
    """Return the files of which anything is selected."""
    parts = (_part(file, selection) for file in sorted(files, key=attrgetter("lfn")))
    return [part for part in parts if part[1] != ()]


def _part(file: FileSpec, selection: Selection) -> Part:
    if file.mask is None and selection.everything:
        return file, None, file.events
    lumis = normalised(file.lumis)
    mask = wanted_of(file, lumis, selection)
    if not mask:
        return file, (), 0
    total = count(lumis)
    return file, mask, (total if mask is lumis else count(mask)) * round(file.events / total)


def _job(parts: Sequence[Part]) -> JobSpec:
    masks = [mask for _, mask, _ in parts if mask is not None]
    mixed = 0 < len(masks) < len(parts)
    return JobSpec(
        files=tuple([FileWindow(file, mask=mask if mixed else None) for file, mask, _ in parts]),
        sites=parts[0][0].sites,
        events=sum([events for _, _, events in parts]),
        mask=tuple(chain.from_iterable(masks)) if masks and not mixed else None,
    )


SPLITTER = Splitter(SplittingAlgo.FILE_BASED, split_file_based, size="files_per_job", total="total_files")
