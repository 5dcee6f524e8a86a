"""Input datasets: their files, locations and events. Pure and deterministic."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from lab.toy.eventfile import Event

NAMESPACE = uuid.UUID("6f0d2a52-5d57-4b1b-9a41-0d2f7f4f6c11")
PAYLOAD_BYTES = 32


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file; its events are numbered from `first_event` and fill `lumis` equally."""

    lfn: str
    rses: tuple[str, ...]
    run: int
    first_lumi: int
    lumis: int
    first_event: int
    events: int

    def contents(self) -> Iterator[Event]:
        per_lumi = -(-self.events // self.lumis)
        for index in range(self.events):
            number = self.first_event + index
            digest = hashlib.shake_128(f"{self.run} {number}".encode()).hexdigest(PAYLOAD_BYTES)
            yield Event(self.run, self.first_lumi + index // per_lumi, number, digest)


@dataclass(frozen=True, slots=True)
class InputBlock:
    """Files registered together; the first storage is their origin."""

    name: str
    rses: tuple[str, ...]
    files: tuple[InputFile, ...]


@dataclass(frozen=True, slots=True)
class InputDataset:
    name: str
    acquisition_era: str
    blocks: tuple[InputBlock, ...]


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """Files of a block, their location, and how many have a second copy."""

    rse: str
    files: int
    run: int
    copies_at: str = ""
    copied: int = 0


def muon_dataset(suffix: str, scale: int = 1) -> InputDataset:
    """Return 26 files in four runs at three sites, some with two copies."""
    plans = (
        BlockPlan("T1_US_FNAL_Disk", files=6, run=380001),
        BlockPlan("T1_US_FNAL_Disk", files=6, run=380002, copies_at="T2_CH_CERN", copied=4),
        BlockPlan("T2_CH_CERN", files=8, run=380003, copies_at="T2_DE_DESY", copied=2),
        BlockPlan("T2_DE_DESY", files=6, run=380004),
    )
    return _dataset("SingleMuon", "Run2024A", suffix, plans, events=40 * scale, lumis=4)


def histogram_dataset(suffix: str) -> InputDataset:
    """Return 6 files in two runs at one site."""
    plans = (BlockPlan("T2_CH_CERN", files=4, run=382001), BlockPlan("T2_CH_CERN", files=2, run=382002))
    return _dataset("JetMET", "Run2024B", suffix, plans, events=20, lumis=2, tier="DQMIO")


def electron_dataset(suffix: str, scale: int = 1) -> InputDataset:
    """Return 8 files in two runs at two sites."""
    plans = (
        BlockPlan("T2_CH_CERN", files=4, run=381001),
        BlockPlan("T2_US_Purdue", files=4, run=381002),
    )
    return _dataset("EGamma", "Run2024B", suffix, plans, events=50 * scale, lumis=5)


def many_files_dataset(suffix: str, events: int = 10) -> InputDataset:
    """Return 200 small files at three sites, each file at one of them."""
    plans = (
        BlockPlan("T1_US_FNAL_Disk", files=60, run=382001),
        BlockPlan("T2_CH_CERN", files=80, run=382002),
        BlockPlan("T2_DE_DESY", files=60, run=382003),
    )
    return _dataset("MinimumBias", "Run2024C", suffix, plans, events=events, lumis=1)


def pileup_dataset(suffix: str) -> InputDataset:
    """Return 2 files at two sites."""
    plans = (BlockPlan("T2_CH_CERN", files=2, run=1, copies_at="T1_US_FNAL_Disk", copied=2),)
    return _dataset("Neutrino", "RunLab24", suffix, plans, events=100, lumis=1, tier="PREMIX")


def _dataset(
    primary: str,
    era: str,
    suffix: str,
    plans: tuple[BlockPlan, ...],
    *,
    events: int,
    lumis: int,
    tier: str = "RAW",
) -> InputDataset:
    processed = f"Lab{suffix}-v1"
    name = f"/{primary}/{era}-{processed}/{tier}"
    base = f"/store/data/{era}/{primary}/{tier}/{processed}"
    blocks = []
    for plan in plans:
        block_name = f"{name}#{uuid.uuid5(NAMESPACE, f'{name} {plan.run}')}"
        files = tuple(
            InputFile(
                lfn=f"{base}/{plan.run:09d}/{uuid.uuid5(NAMESPACE, f'{block_name} {index}')}.root",
                rses=(plan.rse, plan.copies_at) if index < plan.copied else (plan.rse,),
                run=plan.run,
                first_lumi=1 + index * lumis,
                lumis=lumis,
                first_event=1 + index * events,
                events=events,
            )
            for index in range(plan.files)
        )
        blocks.append(InputBlock(block_name, (plan.rse,), files))
    return InputDataset(name, era, tuple(blocks))
