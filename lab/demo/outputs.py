"""Reads the merged files of a demonstration with uproot from the lab's storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uproot

from cms.dbs import DbsClient, DbsConfig
from lab.cms_world.known import RSES
from lab.errors import LabError
from lab.seed.storage import Storage

RUN, EVENT, MASS = "run", "event", "dimuon_mass"
RUN_SHIFT = 40  # bits that event numbers take
Array = np.ndarray[Any, np.dtype[Any]]
Files = Callable[[str], Iterable[Path]]  # of a dataset


@dataclass(frozen=True, slots=True)
class Merged:
    """The first output dataset of a request: its events, and the median mass of their muon pairs."""

    events: int
    peak_gev: float


@dataclass(frozen=True, slots=True)
class Events:
    """The events of a dataset; `numbers` has run and event number of each in one number."""

    numbers: Array
    masses: Array


def read_outputs(documents: Sequence[Mapping[str, Any]], environment: Mapping[str, str]) -> dict[str, Merged]:
    """Return what each request has written, by request name.

    Raises LabError if a file is missing, or an event is in an output dataset twice or not at all.
    """
    url, storage = environment["WMS2_LAB_CMS_URL"], Storage(environment["WMS2_LAB_STORAGE_PREFIX"])
    dbs = DbsClient(DbsConfig(f"{url}/dbs/DBSReader", f"{url}/dbs/DBSWriter"))

    def files(dataset: str) -> list[Path]:
        return [_place(file.lfn, storage) for file in dbs.files(dataset)]

    return {document["RequestName"]: check_outputs(document, files) for document in documents}


def check_outputs(document: Mapping[str, Any], files: Files) -> Merged:
    """Compare the output datasets of a request with its input; return what the first one holds."""
    wanted = _events(files(document["InputDataset"])).numbers if document.get("InputDataset") else None
    found = {dataset: _events(files(dataset)) for dataset in document["OutputDatasets"]}
    for dataset, events in found.items():
        _check_once(dataset, events.numbers, wanted)
    first = found[document["OutputDatasets"][0]]
    return Merged(len(first.masses), float(np.median(first.masses)) if len(first.masses) else float("nan"))


def _check_once(dataset: str, numbers: Array, wanted: Array | None) -> None:
    """Raise LabError unless every event is there exactly once; `wanted` None = any generated events."""
    doubled = len(numbers) - len(np.unique(numbers))
    if doubled:
        raise LabError(f"{dataset}: {doubled} events are in its files twice")
    if wanted is None:
        return
    lost, foreign = len(np.setdiff1d(wanted, numbers)), len(np.setdiff1d(numbers, wanted))
    if lost or foreign:
        raise LabError(f"{dataset}: {lost} events of the input are not in its files, {foreign} others are")


def _events(paths: Iterable[Path]) -> Events:
    numbers, masses = [np.empty(0, np.int64)], [np.empty(0)]
    for path in paths:
        with uproot.open({str(path): "Events"}) as tree:
            arrays = tree.arrays([RUN, EVENT, MASS], library="np")
        numbers.append((arrays[RUN].astype(np.int64) << RUN_SHIFT) + arrays[EVENT].astype(np.int64))
        masses.append(arrays[MASS].astype(np.float64))
    return Events(np.concatenate(numbers), np.concatenate(masses))


def _place(lfn: str, storage: Storage) -> Path:
    for path in _places(lfn, storage):
        if path.exists():
            return path
    raise LabError(f"{lfn} is in DBS, but at none of the sites")


def _places(lfn: str, storage: Storage) -> Iterator[Path]:
    return (storage.path(lfn, rse.name) for rse in RSES)
