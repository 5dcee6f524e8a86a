"""Changes that a job makes to a configuration before cmsRun reads it. Pure.

The changes are written in the notation of `edm_pset_tweak.py`, which CMSSW's own Python evaluates: the values
are made here from numbers and names only. Random seeds and the order of pileup files are set by the
configuration that cmsRun is given (`render_pset`), because the tools of CMSSW choose them anew each time: a
job that is run again must make the same events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sandbox.cmssw.config import SAVER, Harvest, HarvestUnit
from sandbox.cmssw.pieces import ALL_EVENTS, Piece
from sandbox.lumis import Lumis, flat

MERGED = "Merged"  # label of the output module of CMSSW's own merge
MAX_SEED = 900_000_000  # of every engine in CMSSW


@dataclass(frozen=True)
class Task:
    """One cmsRun: its input as cmsRun names it, its threads, and the output file of each module."""

    inputs: tuple[str, ...] = ()
    skip: int = 0
    events: int = ALL_EVENTS
    mask: Lumis | None = None
    generate: Piece | None = None
    lhe: bool = False
    threads: int = 1
    streams: int = 0
    outputs: Mapping[str, str] = field(default_factory=dict)
    harvest: Harvest | None = None


def build_tweaks(task: Task) -> dict[str, str]:
    """Return the changes, by the name of the parameter."""
    tweaks = {
        "process.maxEvents": f"customTypeCms.untracked.PSet(input=cms.untracked.int32({int(task.events)}))",
        "process.options.numberOfThreads": _untracked("uint32", task.threads),
        "process.options.numberOfStreams": _untracked("uint32", task.streams),
        "process.CPU": "customTypeCms.Service('CPU')",
        "process.Timing": "customTypeCms.Service('Timing', summaryOnly=cms.untracked.bool(True))",
        "process.SimpleMemoryCheck": "customTypeCms.Service('SimpleMemoryCheck',"
        " jobReportOutputOnly=cms.untracked.bool(True))",
    }
    tweaks |= _generated(task.generate, lhe=task.lhe) if task.generate else _read(task)
    for module, name in task.outputs.items():
        tweaks[f"process.{module}.fileName"] = _untracked("string", name)
    return tweaks | (_harvested(task.harvest, task.mask or {}) if task.harvest else {})


def _generated(piece: Piece, *, lhe: bool) -> dict[str, str]:
    """Return the changes of a generating step. An LHE source skips the events before the job's."""
    numbers = {
        "firstRun": piece.run,
        "firstLuminosityBlock": piece.first_lumi,
        "numberEventsInLuminosityBlock": piece.events_per_lumi,
        **({"skipEvents": piece.first_event - 1} if lhe else {"firstEvent": piece.first_event}),
    }
    return {f"process.source.{name}": _untracked("uint32", value) for name, value in numbers.items()}


def _read(task: Task) -> dict[str, str]:
    tweaks = {"process.source.fileNames": _untracked("vstring", list(task.inputs))}
    if task.harvest is None:  # the source of histograms has no such parameter
        tweaks["process.source.skipEvents"] = _untracked("uint32", task.skip)
    if task.mask is not None:
        ranges = [f"{run}:{first}-{run}:{last}" for run, first, last in sorted(flat(task.mask))]
        tweaks["process.source.lumisToProcess"] = _untracked("VLuminosityBlockRange", ranges)
    return tweaks


def _harvested(harvest: Harvest, mask: Lumis) -> dict[str, str]:
    """Return what `cmssw_handle_dqm_filesaver.py` sets: the dataset and, for several runs, a run number."""
    tweaks = {f"process.{SAVER}.runIsComplete": "customTypeCms.untracked.bool(False)"}
    dataset = harvest.dataset
    if harvest.unit is HarvestUnit.MULTI_RUN:
        stem, _, tier = dataset.rpartition("/")
        limits = f"-{min(mask)}-{max(mask)}" if mask else ""
        dataset = f"{stem}{limits}/{tier}"
        tweaks[f"process.{SAVER}.forceRunNumber"] = "customTypeCms.untracked.int32(999999)"
    return {**tweaks, f"process.{SAVER}.workflow": _untracked("string", dataset)}


def _untracked(kind: str, value: int | str | Sequence[str]) -> str:
    return f"customTypeCms.untracked.{kind}({value!r})"


def merge_arguments(dataset: str) -> dict[str, Any]:
    """Return the arguments of CMSSW's own merge for files of the dataset's tier."""
    tier = dataset.rpartition("/")[2]
    arguments = {"process_name": "Merge", "outputmod_label": MERGED, "output_file": f"{MERGED}.root"}
    return {
        **arguments,
        **({"mergeNANO": True} if tier.startswith("NANOAOD") else {}),
        **({"newDQMIO": True} if tier == "DQMIO" else {}),
    }


def choose_seed(*parts: object) -> int:
    """Return a seed from 1 to MAX_SEED that depends on the parts alone."""
    digest = hashlib.blake2b(" ".join(map(str, parts)).encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest, "big") % MAX_SEED


def render_pset(*, seed: int, pileup_seed: int) -> str:
    """Return the configuration that cmsRun is given. CMSSW's Python runs it, in old releases Python 2.6."""
    return PSET.replace("@SEED@", str(seed)).replace("@PILEUP_SEED@", str(pileup_seed))


PSET = """\
# Written by WMS2: the request's configuration with the job's changes and seeds.
import pickle
import random
import zlib

with open("PSet.pkl", "rb") as handle:
    process = pickle.load(handle)


def seed_of(name, number):
    text = "%s %s" % (name, number)
    return (@SEED@ + zlib.crc32(text.encode("ascii"))) % 900000000 + 1


service = getattr(process, "RandomNumberGeneratorService", None)
for name in service.parameterNames_() if service is not None else ():
    engine = getattr(service, name)
    if hasattr(engine, "initialSeedSet"):
        engine.initialSeedSet = [seed_of(name, n) for n in range(len(engine.initialSeedSet.value()))]
    elif hasattr(engine, "initialSeed"):
        engine.initialSeed = seed_of(name, 0)

for module in list(process.producers_().values()) + list(process.filters_().values()):
    if module.type_() in ("MixingModule", "DataMixingModule", "PreMixingModule"):
        for source in (getattr(module, "input", None), getattr(module, "secsource", None)):
            if source is not None and hasattr(source, "fileNames"):
                names = sorted(source.fileNames.value())
                random.Random(@PILEUP_SEED@).shuffle(names)
                source.fileNames = names
"""
