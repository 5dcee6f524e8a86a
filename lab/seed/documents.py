"""Sample requests in ReqMgr2's format. Pure."""

from __future__ import annotations

from typing import Any

from lab.cms_world.known import RSES

Document = dict[str, Any]
# Small jobs, because the whole lab shares one machine.
LIGHT = {"cpu_sec_per_event": 0.002, "output_kb_per_event": 0.0625}


def rereco(*, input_dataset: str, suffix: str) -> Document:
    """Return a request that reads data, with two output tiers, two files per job and a pilot."""
    era, string = "Run2024A", f"LabReReco{suffix}"
    return {
        **_common("ReReco_SingleMuon", suffix, era=era, string=string),
        "RequestType": "ReReco",
        "RequestPriority": 110_000,
        "InputDataset": input_dataset,
        "SplittingAlgo": "FileBased",
        "FilesPerJob": 2,
        "OutputDatasets": [f"/SingleMuon/{era}-{string}-v1/{tier}" for tier in ("AOD", "MINIAOD")],
        "MergedLFNBase": "/store/data",
        "PayloadConfig": {"toy": LIGHT},
    }


def monte_carlo(*, suffix: str) -> Document:
    """Return a request without input: 2,000 events, with a filter that keeps every second one."""
    era, string, efficiency = "RunLab24", f"LabMC{suffix}", 0.5
    return {
        **_common("MonteCarlo_ZToMuMu", suffix, era=era, string=string),
        "RequestType": "MonteCarlo",
        "RequestPriority": 90_000,
        "PrimaryDataset": "ZToMuMu",
        "RequestNumEvents": 2000,
        "FilterEfficiency": efficiency,
        "SplittingAlgo": "EventBased",
        "EventsPerJob": 400,
        "EventsPerLumi": 100,
        "OutputDatasets": [f"/ZToMuMu/{era}-{string}-v1/GEN-SIM"],
        "MergedLFNBase": "/store/mc",
        "PayloadConfig": {"toy": {**LIGHT, "cpu_sec_per_event": 0.0005, "filter_efficiency": efficiency}},
    }


def urgent(*, input_dataset: str, suffix: str) -> Document:
    """Return an urgent request: no pilot, the requestor's estimate is used."""
    era, string = "Run2024B", f"LabUrgent{suffix}"
    return {
        **_common("Urgent_EGamma", suffix, era=era, string=string),
        "RequestType": "ReReco",
        "RequestPriority": 500_000,
        "Urgent": True,
        "InputDataset": input_dataset,
        "SplittingAlgo": "EventBased",
        "EventsPerJob": 25,
        "OutputDatasets": [f"/EGamma/{era}-{string}-v1/AOD"],
        "MergedLFNBase": "/store/data",
        "PayloadConfig": {"toy": {**LIGHT, "cpu_sec_per_event": 0.004}},
    }


def copy_of(document: Document, mark: str) -> Document:
    """Return the same request under another name, with its own output datasets."""
    names = [name.replace("-v1/", f"{mark}-v1/") for name in document["OutputDatasets"]]
    return document | {"RequestName": f"{document['RequestName']}_{mark}", "OutputDatasets": names}


def _common(what: str, suffix: str, *, era: str, string: str) -> Document:
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
        "CMSSWVersion": "CMSSW_14_0_0",
        "ScramArch": ["el8_amd64_gcc12"],
        "GlobalTag": "140X_lab_v1",
    }
