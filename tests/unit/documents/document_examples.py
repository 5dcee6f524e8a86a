"""Example request documents, one in each format that WMS2 accepts."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

Json = dict[str, Any]

OWN: Json = {
    "request_name": "ana_Muons_2031A_v1",
    "requestor": "ana",
    "requestor_dn": "/DC=org/DC=example/CN=Ana O'Neil",
    "group": "muons",
    "campaign": "Muons2031",
    "prep_id": "MUO-2031A-00001",
    "priority": 250_000,
    "input_dataset": "/Muons/Run2031A-v1/RAW",
    "secondary_input_dataset": "/Noise/Run2031-Mix-v1/PREMIX",
    "output_datasets": ["/Muons/Run2031A-First-v1/AOD"],
    "acquisition_era": "Run2031A",
    "processing_string": "First",
    "processing_version": 1,
    "cmssw_version": "CMSSW_20_0_1",
    "scram_arch": "el9_amd64_gcc14",
    "global_tag": "200X_data_v1",
    "memory_mb": 2000,
    "cores": 4,
    "time_per_event_sec": 2.5,
    "size_per_event_kb": 40,
    "site_whitelist": ["T1_US_FNAL", "T2_CH_CERN"],
    "site_blacklist": ["T2_DE_DESY"],
    "splitting_algo": "FileBased",
    "splitting_params": {
        "files_per_job": 3,
        "run_whitelist": [5, 3],
        "block_whitelist": ["/Muons/Run2031A-v1/RAW#0a1b"],
        "lumi_mask": {"5": [[1, 4], [5, 9]]},
    },
    "merged_lfn_base": "/store/data",
    "unmerged_lfn_base": "/store/unmerged",
    "sandbox_url": "https://files.example.org/sandbox.tar.gz",
    "callback_url": "https://hooks.example.org:8443/done",
    "config_cache_id": "c0ffee",
    "correlation_id": "order:77",
    "submitted_by": "portal@example.org",
    "previous_version_request": "ana_Muons_2031A_v0",
    "cleanup_policy": "immediate_cleanup",
    "allocation": "push",
    "wms_backend": "wms2",
    "payload_config": {"steps": ["reco"], "note": 'free text: "quotes", $HOME and\nlines'},
}

RERECO: Json = {
    "RequestName": "bob_ReReco_2031B_v1",
    "RequestType": "ReReco",
    "Requestor": "bob",
    "RequestorDN": "",
    "Group": "PPD",
    "Campaign": "Again2031",
    "PrepID": "AGAIN-2031B-00002",
    "RequestPriority": 90_000,
    "InputDataset": "/Electrons/Run2031B-v1/RAW",
    "AcquisitionEra": "Run2031B",
    "ProcessingString": "Again",
    "ProcessingVersion": 2,
    "CMSSWVersion": "CMSSW_20_1_0_patch2",
    "ScramArch": ["el9_amd64_gcc14", "el8_amd64_gcc12"],
    "GlobalTag": "201X_data_v3::All",
    "ConfigCacheID": "deadbeef01",
    "Memory": 7800.0,
    "Multicore": 8,
    "TimePerEvent": 4,
    "SizePerEvent": 250.5,
    "SplittingAlgo": "EventAwareLumiBased",
    "RunWhitelist": [900, 901],
    "LumiList": {},
    "SiteWhitelist": "T2_CH_CERN",
    "SiteBlacklist": [],
    "MergedLFNBase": "/store/data/",
    "MaxMergeSize": 2 * 1024**3,
    "Scenario": "pp",
    "Comments": "please hurry",
    "RequestStatus": "assigned",
    "RequestTransition": [{"Status": "new", "DN": "/CN=ana"}],
    "_id": "bob_ReReco_2031B_v1",
}

MONTE_CARLO: Json = {
    "RequestName": "eve_Toys_v1",
    "RequestType": "MonteCarlo",
    "Requestor": "eve",
    "PrimaryDataset": "ToyJets_Pt-30",
    "AcquisitionEra": "Sim2031",
    "ProcessingString": "Toys",
    "CMSSWVersion": "CMSSW_20_0_1",
    "ScramArch": "el9_amd64_gcc14",
    "GlobalTag": "200X_mc_v1",
    "RequestNumEvents": 5000,
    "FilterEfficiency": 0.25,
    "EventsPerLumi": 100,
    "EventsPerJob": 460,
    "FirstEvent": 1001,
    "FirstLumi": 11,
    "TimePerEvent": 30,
    "SizePerEvent": 80,
    "MCPileup": "/Noise/Run2031-Mix-v1/PREMIX",
    "SplittingAlgo": "LumiBased",
}

TASK_CHAIN: Json = {
    "RequestName": "dan_Chain_v1",
    "RequestType": "TaskChain",
    "Requestor": "dan",
    "AcquisitionEra": "Default2031",
    "ProcessingString": "Default",
    "CMSSWVersion": "CMSSW_20_0_1",
    "Memory": 3000,
    "Multicore": 1,
    "TimePerEvent": 1,
    "SizePerEvent": 100,
    "TaskChain": 3,
    "Task1": {
        "TaskName": "ToyGenSim",
        "AcquisitionEra": "Sim2031",
        "ProcessingString": "One",
        "PrimaryDataset": "ToyTops",
        "RequestNumEvents": 2000,
        "SplittingAlgo": "EventBased",
        "EventsPerLumi": 50,
        "KeepOutput": False,
        "Memory": 2000,
        "TimePerEvent": 20,
    },
    "Task2": {
        "TaskName": "ToyDigi",
        "ProcessingString": "Two",
        "InputTask": "ToyGenSim",
        "InputFromOutputModule": "FEVTDEBUGoutput",
        "DataPileup": "/Noise/Run2031-Mix-v1/PREMIX",
        "Memory": 6000,
        "Multicore": 4,
        "TimePerEvent": 9.5,
    },
    "Task3": {
        "TaskName": "ToyReco",
        "ProcessingString": "Three",
        "InputTask": "ToyDigi",
        "InputFromOutputModule": "PREMIXRAWoutput",
        "KeepOutput": True,
    },
}

STEP_CHAIN: Json = {
    "RequestName": "fay_Steps_v1",
    "RequestType": "StepChain",
    "Requestor": "fay",
    "AcquisitionEra": {"Mini": "Run2031C", "Nano": "Run2031CNano"},
    "ProcessingString": {"Mini": "Slim", "Nano": "Slimmer"},
    "ProcessingVersion": 4,
    "CMSSWVersion": "CMSSW_20_0_1",
    "TimePerEvent": 3,
    "Memory": {"Mini": 2500, "Nano": 1500},
    "StepChain": 2,
    "Step1": {
        "StepName": "Mini",
        "InputDataset": "/Photons/Run2031C-v2/AOD",
        "SplittingAlgo": "LumiBased",
        "LumisPerJob": 15,
        "LumiList": {"77": [[4, 9], [1, 3]]},
        "IncludeParents": True,
    },
    "Step2": {"StepName": "Nano", "InputStep": "Mini", "InputFromOutputModule": "MINIAODoutput"},
}

TEMPLATE: Json = {
    "createRequest": {
        **{k: v for k, v in RERECO.items() if k not in ("RequestName", "Requestor", "_id")},
        "Campaign": "Campaign-OVERRIDE-ME",
        "RequestString": "RequestString-OVERRIDE-ME",
    },
    "assignRequest": {
        "AcquisitionEra": "AcquisitionEra-OVERRIDE-ME",
        "ProcessingVersion": 19,
        "SiteWhitelist": ["SiteWhitelist-OVERRIDE-ME"],
        "SiteBlacklist": ["T2_DE_DESY"],
        "Team": "Team-OVERRIDE-ME",
        "MergedLFNBase": "/store/backfill/1",
    },
}

DUMP: Json = {RERECO["RequestName"]: RERECO}

ALL: dict[str, Json] = {
    "own": OWN,
    "rereco": RERECO,
    "monte_carlo": MONTE_CARLO,
    "task_chain": TASK_CHAIN,
    "step_chain": STEP_CHAIN,
    "template": TEMPLATE,
    "dump": DUMP,
}


def changed(document: Mapping[str, Any], **values: Any) -> Json:
    """Return a copy with some fields replaced, and those given as `...` removed."""
    copy = {**deepcopy(dict(document)), **values}
    return {name: value for name, value in copy.items() if value is not ...}


def in_step(document: Mapping[str, Any], label: str, **values: Any) -> Json:
    """Return a copy with some fields of one task or step replaced or, given as `...`, removed."""
    return changed(document, **{label: changed(document[label], **values)})
