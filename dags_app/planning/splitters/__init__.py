"""Splitting: files or an event budget become jobs. One module per algorithm, one name each.

The semantics are WMCore's: jobs never mix locations, files count events from 0, Monte Carlo from its
first event. Each splitter yields jobs one by one, so a large dataset never stands in memory twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from dags_app.planning.splitters.event_based import split_event_based
from dags_app.planning.splitters.file_based import split_file_based
from dags_app.planning.types import FileSpec, JobSpec
from dags_app.states import SplittingAlgo
from wms2_project.errors import PermanentError

Splitter = Callable[[Sequence[FileSpec], Mapping[str, Any]], Iterator[JobSpec]]

SPLITTERS: dict[SplittingAlgo, Splitter] = {
    SplittingAlgo.FILE_BASED: split_file_based,
    SplittingAlgo.EVENT_BASED: split_event_based,
}


class UnsupportedSplitting(PermanentError):
    """The request asks for an algorithm this installation does not have."""


def split(algo: SplittingAlgo, files: Sequence[FileSpec], params: Mapping[str, Any]) -> Iterator[JobSpec]:
    """Jobs that cover these files exactly once; files of different locations never share a job."""
    splitter = SPLITTERS.get(algo)
    if splitter is None:
        known = ", ".join(sorted(SPLITTERS))
        raise UnsupportedSplitting(
            f"splitting algorithm {algo} is not available", cure=f"Resubmit with one of {known}"
        )
    ordered = sorted(files, key=lambda file: (sorted(file.sites), _first_run(file), file.lfn))
    for _, same_sites in groupby(ordered, key=lambda file: file.sites):
        yield from splitter(list(same_sites), params)


def _first_run(file: FileSpec) -> int:
    """Files of one run stand next to each other, so a job rarely has to change runs."""
    return file.lumis[0][0] if file.lumis else 0
