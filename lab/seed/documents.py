"""Sample requests in ReqMgr2's format. Pure."""

from __future__ import annotations

from typing import Any

from lab.cms_world.known import RSES
from lab.seed.formats import TOY, Format

Document = dict[str, Any]


def rereco(*, input_dataset: str, suffix: str, format_: Format = TOY) -> Document:
    """Return a request that reads data, with two output tiers, two files per job and a pilot."""
    era, string = "Run2024A", f"LabReReco{suffix}"
    return {
        **common_fields("ReReco_SingleMuon", suffix, era=era, string=string),
        "RequestType": "ReReco",
        "RequestPriority": 110_000,
        "InputDataset": input_dataset,
        "SplittingAlgo": "FileBased",
        "FilesPerJob": 2,
        "OutputDatasets": [f"/SingleMuon/{era}-{string}-v1/{tier}" for tier in ("AOD", "MINIAOD")],
        "MergedLFNBase": "/store/data",
        "PayloadConfig": format_.payload(cpu_sec_per_event=0.002),
    }


def monte_carlo(*, suffix: str, format_: Format = TOY) -> Document:
    """Return a request that generates 2,000 events (times the scale) after a filter that keeps half."""
    era, string, efficiency = "RunLab24", f"LabMC{suffix}", 0.5
    return {
        **common_fields("MonteCarlo_ZToMuMu", suffix, era=era, string=string),
        "RequestType": "MonteCarlo",
        "RequestPriority": 90_000,
        "PrimaryDataset": "ZToMuMu",
        "RequestNumEvents": 2000 * format_.scale,
        "FilterEfficiency": efficiency,
        "SplittingAlgo": "EventBased",
        "EventsPerJob": 400 * format_.scale,
        "EventsPerLumi": 100 * format_.scale,
        "OutputDatasets": [f"/ZToMuMu/{era}-{string}-v1/GEN-SIM"],
        "MergedLFNBase": "/store/mc",
        "PayloadConfig": format_.payload(cpu_sec_per_event=0.0005, filter_efficiency=efficiency),
    }


def urgent(*, input_dataset: str, suffix: str, format_: Format = TOY) -> Document:
    """Return an urgent request: no pilot, the requestor's estimate is used."""
    era, string = "Run2024B", f"LabUrgent{suffix}"
    return {
        **common_fields("Urgent_EGamma", suffix, era=era, string=string),
        "RequestType": "ReReco",
        "RequestPriority": 500_000,
        "Urgent": True,
        "InputDataset": input_dataset,
        "SplittingAlgo": "EventBased",
        "EventsPerJob": 25 * format_.scale,
        "OutputDatasets": [f"/EGamma/{era}-{string}-v1/AOD"],
        "MergedLFNBase": "/store/data",
        "PayloadConfig": format_.payload(cpu_sec_per_event=0.004),
    }


def copy_of(document: Document, mark: str) -> Document:
    """Return the same request under another name, with its own output datasets."""
    names = [name.replace("-v1/", f"{mark}-v1/") for name in document["OutputDatasets"]]
    return document | {"RequestName": f"{document['RequestName']}_{mark}", "OutputDatasets": names}


def common_fields(what: str, suffix: str, *, era: str, string: str) -> Document:
    """Return the fields that every document has."""
    return {
        "RequestName": f"lab_{what}_{suffix}" if suffix else f"lab_{what}",
        "RequestStatus": "assigned",
        "Requestor": "lab",
        "Group": "PPD",
        "Campaign": f"{era}Lab",
        "PrepID": f"LAB-{era}-{string}",
        "AcquisitionEra": era,
        "ProcessingString": string,
        "ProcessingVersion": 1,
        "UnmergedLFNBase": "/store/unmerged",
        "Memory": 500,
        "Multicore": 1,
        "TimePerEvent": 0.01,
        "SizePerEvent": 0.1,
        "SiteWhitelist": sorted({rse.site for rse in RSES}),
    }
