"""Documents of every shape of CMSSW request, their configurations, and how to run them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cms.types import Configuration, OutputModule
from dags_app.planning.configurations import (
    pin_configurations,
    steps_of,
)
from dags_app.planning.payloads import PayloadRules
from lab.seed.cmssw import SAVING
from requests_app.documents import read_document
from requests_app.documents.spec import RequestSpec
from tests.cmssw_world import MIXING, Node, build_pset

CHECKOUT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("WMS2_SAMPLES", CHECKOUT.parent / "shared" / "samples")) / "reqmgr2"
PREMIX = "/Neutrino_E-10_gun/RunIIPremix-v1/PREMIX"
RULES = PayloadRules()
COMMON = {
    "RequestName": "ana_test_1",
    "Requestor": "ana",
    "Campaign": "Test",
    "CMSSWVersion": "CMSSW_14_0_19",
    "ScramArch": ["el8_amd64_gcc12"],
    "GlobalTag": "140X_v1",
    "AcquisitionEra": "Run2026A",
    "ProcessingString": "Test",
    "ProcessingVersion": 1,
    "Memory": 2000,
    "Multicore": 4,
    "TimePerEvent": 1,
    "SizePerEvent": 10,
}
GENERATES = {"PrimaryDataset": "ZToMuMu", "RequestNumEvents": 100, "EventsPerJob": 25, "EventsPerLumi": 10}


def rereco(**more: Any) -> dict[str, Any]:
    era = "Run2026A"
    return COMMON | {
        "RequestType": "ReReco",
        "InputDataset": "/SingleMuon/Run2026A-v1/RAW",
        "ConfigCacheID": "cfg-rereco",
        "EventStreams": 2,
        "OutputDatasets": [
            f"/SingleMuon/{era}-Test-v1/AOD",
            f"/SingleMuon/{era}-EcalESAlign-Test-v1/ALCARECO",
            f"/SingleMuon/{era}-HcalCalIso-Test-v1/ALCARECO",
        ],
        **more,
    }


def harvest(**more: Any) -> dict[str, Any]:
    return COMMON | {
        "RequestType": "DQMHarvest",
        "InputDataset": "/JetMET0/Run2026A-Test-v1/DQMIO",
        "DQMConfigCacheID": "cfg-harvest",
        "DQMHarvestUnit": "byRun",
        **more,
    }


def step_chain(**more: Any) -> dict[str, Any]:
    """Return a request with generation, digitisation with pileup in an older release, and reconstruction.

    The output of the first is not kept.
    """
    return COMMON | {
        "RequestType": "StepChain",
        "StepChain": 3,
        "Step1": {
            "StepName": "GENSIM",
            "ConfigCacheID": "cfg-gen",
            "KeepOutput": False,
            "Multicore": 2,
            **GENERATES,
        },
        "Step2": {
            "StepName": "DIGI",
            "ConfigCacheID": "cfg-digi",
            "InputStep": "GENSIM",
            "InputFromOutputModule": "RAWSIMoutput",
            "MCPileup": PREMIX,
            "CMSSWVersion": "CMSSW_10_6_17_patch1",
            "ScramArch": ["slc7_amd64_gcc700"],
        },
        "Step3": {
            "StepName": "RECO",
            "ConfigCacheID": "cfg-reco",
            "InputStep": "DIGI",
            "InputFromOutputModule": "PREMIXRAWoutput",
            "EventStreams": 2,
        },
        **more,
    }


def task_chain(**more: Any) -> dict[str, Any]:
    """Return a request in which two tasks read the output of the first; one output is transient."""
    return COMMON | {
        "RequestType": "TaskChain",
        "TaskChain": 3,
        "Task1": {"TaskName": "GenSim", "ConfigCacheID": "cfg-gen", "KeepOutput": True, **GENERATES},
        "Task2": {
            "TaskName": "Digi",
            "ConfigCacheID": "cfg-digi-nopu",
            "InputTask": "GenSim",
            "InputFromOutputModule": "RAWSIMoutput",
            "TransientOutputModules": ["FEVTDEBUGHLToutput"],
            "AcquisitionEra": "Digi2026",
        },
        "Task3": {
            "TaskName": "Reco",
            "ConfigCacheID": "cfg-reco-fevt",
            "InputTask": "Digi",
            "InputFromOutputModule": "FEVTDEBUGHLToutput",
            "AcquisitionEra": "Reco2026",
        },
        **more,
    }


def configuration(config_id: str, modules: dict[str, Any], **pset: Any) -> Configuration:
    described = {
        label: OutputModule(*([tier] if isinstance(tier, str) else tier)) for label, tier in modules.items()
    }
    return Configuration(config_id, build_pset(*modules, **pset).encode(), described)


CONFIGS = {
    one.config_id: one
    for one in (
        configuration(
            "cfg-rereco",
            {
                "AODoutput": "AOD",
                "ES": ("ALCARECO", "EcalESAlign"),
                "HC": ("ALCARECO", "HcalCalIso"),
                "DQMoutput": "DQMIO",
            },
        ),
        configuration("cfg-gen", {"RAWSIMoutput": "GEN-SIM"}, source="EmptySource"),
        configuration("cfg-lhe", {"RAWSIMoutput": "GEN-SIM", "LHEoutput": "LHE"}, source="LHESource"),
        configuration("cfg-digi", {"PREMIXRAWoutput": "GEN-SIM-RAW"}, more=MIXING),
        configuration("cfg-digi-nopu", {"FEVTDEBUGHLToutput": "GEN-SIM-DIGI-RAW"}),
        configuration("cfg-raw", {"FEVTDEBUGHLToutput": "GEN-SIM-RAW"}),
        configuration("cfg-reco", {"AODSIMoutput": "AODSIM"}),
        configuration("cfg-reco-fevt", {"AODSIMoutput": "AODSIM"}),
        configuration("cfg-harvest", {}, source="DQMRootSource", more=SAVING),
        configuration("cfg-nano", {"NANOAODSIMoutput": "NANOAODSIM"}),
    )
}


def read(raw: dict[str, Any]) -> RequestSpec:
    return read_document(raw, payloads=RULES)


def pinned(spec: RequestSpec, found: dict[str, Configuration] | None = None) -> dict[str, Any]:
    datasets = [output.dataset for output in spec.output_datasets]
    return pin_configurations(spec.payload_config, datasets, found or CONFIGS)


def prepare(node: Node, spec: RequestSpec, found: dict[str, Configuration] | None = None) -> None:
    """Give a node the payload of a request, with pileup files as the input resolution would list them."""
    payload = pinned(spec, found)
    known = found or CONFIGS
    steps = steps_of(payload)
    node.psets = {
        step["pset"]: known[step["config_id"]].content.decode() for step in steps if not step.get("merge")
    }
    pileup: dict[str, list[str]] = {}
    for number, dataset in enumerate(spec.secondary_input_datasets):
        pileup[dataset] = [node.add_input(f"pileup{number}", events=10)["lfn"]]
    node.payload = payload | ({"pileup": pileup} if pileup else {})
    node.datasets = [output.dataset for output in spec.output_datasets]
    node.cores = spec.cores


def generate(node: Node, spec: RequestSpec, events: int = 25) -> list[tuple[int, int, int]]:
    """Plan one job that generates events; return what it must write."""
    per_lumi = spec.splitting_params.events_per_lumi or events
    node.generate_job(1, events, events_per_lumi=per_lumi)
    return [(1, 1 + (n - 1) // per_lumi, n) for n in range(1, events + 1)]
