"""What the merged files of a demonstration hold, read with uproot where the lab's storage keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uproot

from cms.dbs import DbsClient, DbsConfig
from lab.cms_world.known import RSES
from lab.errors import LabError
from lab.seed.storage import Storage

MASS = "dimuon_mass"


@dataclass(frozen=True, slots=True)
class Merged:
    """The first output dataset of a request: its events, and the median mass of their muon pairs."""

    events: int
    peak_gev: float


def read_outputs(documents: Sequence[Mapping[str, Any]], environment: Mapping[str, str]) -> dict[str, Merged]:
    """Return what each request has written, by request name. Raises LabError if a file is missing."""
    prefix = environment["WMS2_LAB_STORAGE_PREFIX"]
    url, storage = environment["WMS2_LAB_CMS_URL"], Storage(prefix)
    dbs = DbsClient(DbsConfig(f"{url}/dbs/DBSReader", f"{url}/dbs/DBSWriter"))
    found = {}
    for document in documents:
        dataset = document["OutputDatasets"][0]
        masses = [_masses(_place(file.lfn, storage)) for file in dbs.files(dataset)]
        joined = np.concatenate(masses) if masses else np.empty(0)
        peak = float(np.median(joined)) if len(joined) else float("nan")
        found[document["RequestName"]] = Merged(len(joined), peak)
    return found


def _place(lfn: str, storage: Storage) -> Path:
    for path in _places(lfn, storage):
        if path.exists():
            return path
    raise LabError(f"{lfn} is in DBS, but at none of the sites")


def _places(lfn: str, storage: Storage) -> Iterator[Path]:
    return (storage.path(lfn, rse.name) for rse in RSES)


def _masses(path: Path) -> np.ndarray[Any, np.dtype[np.float64]]:
    with uproot.open({str(path): "Events"}) as tree:
        return np.asarray(tree[MASS].array(library="np"), dtype=np.float64)
