"""Splitting algorithms: files or an event budget become jobs. One module per algorithm.

Semantics are WMCore's: jobs never mix locations, events of files count from 0, those of Monte Carlo from
its first event. Jobs are yielded one by one, so that a large dataset is in memory only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dags_app.planning.parameters import read_parameters
from dags_app.planning.selection import Selection
from dags_app.planning.splitters import (
    event_aware_lumi_based,
    event_based,
    file_based,
    lumi_based,
)
from dags_app.planning.splitters.base import Splitter
from dags_app.planning.types import FileSpec, JobSpec
from dags_app.states import SplittingAlgo
from sandbox.values import is_whole
from wms2_project.errors import InvalidInput, PermanentError
from wms2_project.tables import check_complete

SPLITTERS: dict[SplittingAlgo, Splitter] = {
    module.SPLITTER.algo: module.SPLITTER
    for module in (file_based, event_based, lumi_based, event_aware_lumi_based)
}
check_complete("SPLITTERS", SPLITTERS, SplittingAlgo)


class UnsupportedSplitting(PermanentError):
    """The algorithm is not available in this installation."""


def split(
    algo: SplittingAlgo,
    files: Iterable[FileSpec],
    params: Mapping[str, Any],
    *,
    time_per_event_sec: float = 0.0,
) -> Iterator[JobSpec]:
    """Return jobs that cover the selected part of these files exactly once, independent of the files' order.

    Parameters are validated before the first job. The time per event matters where jobs that would run too
    long are refused.
    """
    splitter = SPLITTERS.get(algo)
    if splitter is None:
        known = ", ".join(sorted(SPLITTERS))
        raise UnsupportedSplitting(
            f"splitting algorithm {algo} is not available", cure=f"Resubmit with one of {known}"
        )
    selection = Selection.of(params)
    selection.check()
    parameters = read_parameters(params, time_per_event_sec=time_per_event_sec)
    return splitter.split(_by_place(list(files)), parameters, selection)


def _by_place(files: list[FileSpec]) -> list[list[FileSpec]]:
    """Return the files by their set of sites; those that most sites can read come first."""
    if len({file.lfn for file in files}) < len(files):
        files = _without_repeats(files)
    places: dict[frozenset[str], list[FileSpec]] = {}
    for file in files:
        if not is_whole(file.events):
            raise InvalidInput(
                f"{file.lfn} has {file.events!r:.40} events",
                fields={"files": file.lfn},
                cure="Correct the file's entry in the catalogue: a whole number from 0 up",
            )
        places.setdefault(file.sites, []).append(file)
    return [places[sites] for sites in sorted(places, key=lambda sites: (-len(sites), sorted(sites)))]


def _without_repeats(files: list[FileSpec]) -> list[FileSpec]:
    """Drop repeated entries; raise InvalidInput for different entries with one name."""
    known: dict[str, FileSpec] = {}
    for file in files:
        if known.setdefault(file.lfn, file) != file:
            raise InvalidInput(
                f"{file.lfn} is given twice with different facts",
                fields={"files": file.lfn},
                cure="Give each file once, with its events, lumis and sites",
            )
    return list(known.values())
