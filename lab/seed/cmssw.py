"""Requests that run CMSSW: documents of ReqMgr2, their configurations in the ConfigCache, and ROOT input.

The configurations are for the stand-in of CMS software (`lab.cvmfs`).
"""

from __future__ import annotations

from typing import Any

from lab.seed.datasets import electron_dataset, histogram_dataset, pileup_dataset
from lab.seed.documents import Document, common_fields
from lab.seed.formats import ROOT_DEMO
from lab.seed.storage import Laboratory, Storage, store_dataset

RELEASE = {"CMSSWVersion": "CMSSW_14_0_19", "ScramArch": ["el8_amd64_gcc12"], "GlobalTag": "140X_lab_v1"}
MIXING = (
    'process.mix = cms.EDProducer("MixingModule",'
    ' input=cms.SecSource("EmbeddedRootSource", fileNames=cms.untracked.vstring()))'
)
SAVING = (
    'process.dqmSaver = cms.EDAnalyzer("DQMFileSaver", workflow=cms.untracked.string(""),'
    " forceRunNumber=cms.untracked.int32(-1))"
)
OLD_RELEASE = {"CMSSWVersion": "CMSSW_10_6_17_patch1", "ScramArch": ["slc7_amd64_gcc700"]}


def seed_cmssw(url: str, storage: Storage, suffix: str = "") -> list[Document]:
    """Store input, configurations and documents; return the documents, which are in ReqMgr2 as well."""
    lab, electrons = Laboratory(url), electron_dataset(f"Cmssw{suffix}", 1)
    pileup, histograms = pileup_dataset(suffix), histogram_dataset(suffix)
    for dataset in (electrons, pileup, histograms):
        lab.add("datasets", store_dataset(dataset, storage, ROOT_DEMO))
    for config in configurations(suffix):
        lab.add("configs", config)
    documents = [
        step_chain(pileup=pileup.name, suffix=suffix),
        reprocessing(input_dataset=electrons.name, suffix=suffix),
        harvesting(input_dataset=histograms.name, suffix=suffix),
    ]
    for document in documents:
        lab.add("requests", document)
    return documents


def step_chain(*, pileup: str, suffix: str) -> Document:
    """Return a simulation in three steps of two releases, with pileup; the second output is not kept."""
    era, string = "RunLab24", f"LabChain{suffix}"
    return {
        **common_fields("StepChain_ZToMuMu", suffix, era=era, string=string),
        **RELEASE,
        "RequestType": "StepChain",
        "RequestPriority": 90_000,
        "StepChain": 3,
        "Step1": {
            "StepName": "GENSIM",
            "ConfigCacheID": f"lab-gensim{suffix}",
            "PrimaryDataset": "ZToMuMu",
            "RequestNumEvents": 400,
            "EventsPerJob": 100,
            "EventsPerLumi": 25,
            "SplittingAlgo": "EventBased",
            "Seeding": "AutomaticSeeding",
        },
        "Step2": {
            **OLD_RELEASE,
            "StepName": "DIGI",
            "ConfigCacheID": f"lab-digi{suffix}",
            "InputStep": "GENSIM",
            "InputFromOutputModule": "RAWSIMoutput",
            "MCPileup": pileup,
            "KeepOutput": False,
        },
        "Step3": {
            "StepName": "RECO",
            "ConfigCacheID": f"lab-reco{suffix}",
            "InputStep": "DIGI",
            "InputFromOutputModule": "RAWoutput",
        },
        "OutputDatasets": [f"/ZToMuMu/{era}-{string}-v1/{tier}" for tier in ("GEN-SIM", "AODSIM")],
        "MergedLFNBase": "/store/mc",
    }


def reprocessing(*, input_dataset: str, suffix: str) -> Document:
    """Return a request that reprocesses the first lumis of each file, without a pilot."""
    era, string = "Run2024B", f"LabCmssw{suffix}"
    return {
        **common_fields("ReReco_Cmssw", suffix, era=era, string=string),
        **RELEASE,
        "RequestType": "ReReco",
        "RequestPriority": 500_000,
        "Urgent": True,
        "InputDataset": input_dataset,
        "ConfigCacheID": f"lab-rereco{suffix}",
        "SplittingAlgo": "LumiBased",
        "LumisPerJob": 4,
        "LumiList": {"381001": [[1, 3], [6, 8]], "381002": [[2, 12]]},
        "OutputDatasets": [f"/EGamma/{era}-{string}-v1/{tier}" for tier in ("AOD", "MINIAOD")],
        "MergedLFNBase": "/store/data",
    }


def harvesting(*, input_dataset: str, suffix: str) -> Document:
    """Return a request for the histograms of each run, from all files of the run."""
    return {
        **common_fields("DQMHarvest", suffix, era="Run2024B", string=f"LabHarvest{suffix}"),
        **RELEASE,
        "RequestType": "DQMHarvest",
        "RequestPriority": 500_000,
        "InputDataset": input_dataset,
        "DQMConfigCacheID": f"lab-harvest{suffix}",
        "DQMHarvestUnit": "byRun",
        "MergedLFNBase": "/store/data",
    }


def configurations(suffix: str) -> list[dict[str, Any]]:
    """Return the configurations of the documents, as the ConfigCache stores them."""
    return [
        _configuration(f"lab-gensim{suffix}", {"RAWSIMoutput": "GEN-SIM"}, source="EmptySource"),
        _configuration(f"lab-digi{suffix}", {"RAWoutput": "GEN-SIM-RAW"}, more=MIXING),
        _configuration(f"lab-reco{suffix}", {"AODSIMoutput": "AODSIM"}),
        _configuration(f"lab-rereco{suffix}", {"AODoutput": "AOD", "MINIAODoutput": "MINIAOD"}),
        _configuration(f"lab-harvest{suffix}", {}, source="DQMRootSource", more=SAVING),
    ]


def _configuration(
    config_id: str, modules: dict[str, str], *, source: str = "PoolSource", more: str = ""
) -> dict[str, Any]:
    lines = [
        "import FWCore.ParameterSet.Config as cms",
        "",
        'process = cms.Process("LAB")',
        f'process.source = cms.Source("{source}")',
        'process.RandomNumberGeneratorService = cms.Service("RandomNumberGeneratorService",',
        "    generator=cms.PSet(initialSeed=cms.untracked.uint32(1)))",
    ]
    for label in modules:
        name = f'cms.untracked.string("{label}.root")'
        lines.append(f'process.{label} = cms.OutputModule("PoolOutputModule", fileName={name})')
    tiers = {label: {"dataTier": tier} for label, tier in modules.items()}
    return {"id": config_id, "content": "\n".join([*lines, more]) + "\n", "modules": tiers}
