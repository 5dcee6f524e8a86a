"""Requests of simulations and the input data they read."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from random import Random
from typing import Any

from lab.cms_world.control import add_dataset
from lab.simulator.cms import SimulatedCms

RSES = ("T1_US_FNAL_Disk", "T2_CH_CERN", "T2_DE_DESY", "T2_US_Purdue")
ERA = "Run2031A"
Document = dict[str, Any]


def add_input(cms: SimulatedCms, name: str, *, files: int, events: int, random: Random) -> str:
    """Register an input dataset of `files` files of `events` events in DBS and Rucio; return its name."""
    dataset = f"/{name}/{ERA}-v1/RAW"
    blocks = []
    for number, rse in enumerate(sorted(random.sample(RSES, k=min(2, files)))):
        part = range(number, files, min(2, files))
        blocks.append(
            {
                "name": f"{dataset}#{uuid.uuid5(uuid.NAMESPACE_URL, f'{dataset}{number}')}",
                "rses": [rse, *random.sample(sorted(set(RSES) - {rse}), k=random.randrange(2))],
                "files": [_file(name, index, events) for index in part],
            }
        )
    answers = cms.answers
    with answers.store.transaction() as db:
        document = {"dataset": dataset, "blocks": blocks, "acquisition_era": ERA}
        add_dataset(db, document, account=answers.credentials.account, now=cms.clock.now)
    return dataset


def _file(name: str, index: int, events: int) -> Document:
    return {
        "lfn": f"/store/data/{ERA}/{name}/RAW/v1/000/{index:06d}.root",
        "size_bytes": events * 2000,
        "events": events,
        "adler32": f"{index + 1:08x}",
        "lumis": {"380001": [[index + 1, index + 1]]},
    }


def document(name: str, *, datasets: Sequence[str], **changes: Any) -> Document:
    """Return a request document of the toy payload."""
    return {
        "RequestName": name,
        "Requestor": "ana",
        "Group": "DATAOPS",
        "Campaign": f"{ERA}Sim",
        "RequestType": "ReReco",
        "RequestPriority": 100_000,
        "AcquisitionEra": ERA,
        "ProcessingString": "Sim",
        "ProcessingVersion": 1,
        "MergedLFNBase": "/store/data",
        "UnmergedLFNBase": "/store/unmerged",
        "Memory": 500,
        "Multicore": 1,
        "TimePerEvent": 0.5,
        "SizePerEvent": 1.0,
        "OutputDatasets": list(datasets),
        "PayloadConfig": {"kind": "toy"},
        **changes,
    }


def reading(name: str, *, dataset: str, tiers: Sequence[str], **changes: Any) -> Document:
    """Return a request that reads the dataset file by file."""
    outputs = [f"/{name}/{ERA}-Sim-v1/{tier}" for tier in tiers]
    algorithm = {"InputDataset": dataset, "SplittingAlgo": "FileBased", "FilesPerJob": 1}
    return document(name, datasets=outputs, **(algorithm | changes))


def generating(name: str, *, events: int, per_job: int, **changes: Any) -> Document:
    """Return a request that generates events."""
    algorithm = {
        "RequestType": "MonteCarlo",
        "PrimaryDataset": name,
        "RequestNumEvents": events,
        "SplittingAlgo": "EventBased",
        "EventsPerJob": per_job,
        "EventsPerLumi": per_job,
        "MergedLFNBase": "/store/mc",
    }
    return document(name, datasets=[f"/{name}/{ERA}-Sim-v1/GEN-SIM"], **(algorithm | changes))


def subscribe(cms: SimulatedCms, *, pattern: str, rse: str, delay_sec: float) -> None:
    """Subscribe outputs with these names to the storage; each rule takes `seconds`."""
    document = {"name": "simulation", "pattern": pattern, "rse_expression": rse}
    for path, method, body in (
        ("subscriptions", "POST", document),
        ("settings", "PUT", {"rule_delay_sec": delay_sec}),
    ):
        cms.control(method, path, body)
