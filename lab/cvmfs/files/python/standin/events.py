"""The events of the stand-in: arrays by branch, generated or read from ROOT files."""

from __future__ import annotations

import hashlib
import os
import ssl
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uproot

TREE = "Events"
RUN, LUMI, EVENT = "run", "luminosityBlock", "event"
FILE_OPEN = 8020
CA = "ca.pem"  # in the job's directory
Arrays = dict[str, Any]


class FrameworkError(Exception):
    """Ends cmsRun with a CMS exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Read:
    """One input file: the events that were taken from it, and the lumis in which they are."""

    name: str
    events: int
    lumis: list[tuple[int, int]]
    kind: str = "primaryFiles"


@dataclass
class Batch:
    """The events of a job, every lumi it processed, and the files it read."""

    events: Arrays
    lumis: list[tuple[int, int]]
    files: list[Read] = field(default_factory=list)


def lumis_of(events: Arrays) -> list[tuple[int, int]]:
    return sorted(set(zip(events[RUN].tolist(), events[LUMI].tolist(), strict=True)))


def generate(process: Any) -> Batch:
    """Make the events of an EmptySource or LHESource; the seed of the generator decides their content."""
    source, count = process.source, process.maxEvents.input.value()
    lhe = source.type_() == "LHESource"
    first = source.skipEvents.value() + 1 if lhe else source.firstEvent.value()
    per_lumi = source.numberEventsInLuminosityBlock.value()
    rng = np.random.default_rng(generator_seed(process))
    events = {
        RUN: np.full(count, source.firstRun.value(), "u4"),
        LUMI: (source.firstLuminosityBlock.value() + np.arange(count) // per_lumi).astype("u4"),
        EVENT: np.arange(first, first + count, dtype="u8"),
        "mass": (91.2 + 1.25 * rng.standard_cauchy(count)).astype("f4"),
    }
    return Batch(events, lumis_of(events))


def generator_seed(process: Any) -> int:
    service = getattr(process, "RandomNumberGeneratorService", None)
    return int(service.generator.initialSeed.value()) if service is not None else 0


def read(process: Any) -> Batch:
    """Read a PoolSource: skip and count the events that pass the mask, over all files."""
    source, limit = process.source, process.maxEvents.input.value()
    skip = source.skipEvents.value() if hasattr(source, "skipEvents") else 0
    ranges = (
        [parse_range(one) for one in source.lumisToProcess.value()]
        if hasattr(source, "lumisToProcess")
        else None
    )
    chunks: list[Arrays] = []
    files: list[Read] = []
    for name in source.fileNames.value():
        if limit == 0:
            break
        content = open_file(name)
        chosen = np.flatnonzero(passes(content, ranges))
        skip, chosen = max(0, skip - len(chosen)), chosen[skip:]
        chosen = chosen if limit < 0 else chosen[:limit]
        limit -= len(chosen) if limit > 0 else 0
        chunk = {branch: array[chosen] for branch, array in content.items()}
        chunks.append(chunk)
        files.append(Read(name, len(chosen), lumis_of(chunk)))
    events = (
        {branch: np.concatenate([chunk[branch] for chunk in chunks]) for branch in chunks[0]}
        if chunks
        else {}
    )
    return Batch(events, sorted({lumi for file in files for lumi in file.lumis}), files)


def parse_range(text: str) -> tuple[int, int, int]:
    (run, first), (_, last) = (part.split(":") for part in text.split("-"))
    return int(run), int(first), int(last)


def passes(events: Arrays, ranges: list[tuple[int, int, int]] | None) -> Any:
    if ranges is None:
        return np.ones(len(events[RUN]), bool)
    found = np.zeros(len(events[RUN]), bool)
    for run, first, last in ranges:
        found |= (events[RUN] == run) & (events[LUMI] >= first) & (events[LUMI] <= last)
    return found


def open_file(name: str) -> Arrays:
    try:
        with uproot.open({fetch(name): TREE}) as tree:
            return dict(tree.arrays(library="np"))
    except Exception as error:
        raise FrameworkError(FILE_OPEN, f"Failed to open the file '{name}': {error}") from error


def fetch(name: str) -> str:
    """Return the path of a file; one on a storage is copied first, with the job's token."""
    if not name.startswith("https://"):
        return name.removeprefix("file:")
    with open(os.environ["BEARER_TOKEN_FILE"], encoding="ascii") as handle:
        headers = {"Authorization": f"Bearer {handle.read().strip()}"}
    authorities = next((str(path / CA) for path in Path.cwd().parents if (path / CA).exists()), None)
    trust = ssl.create_default_context(cafile=authorities)
    copy = Path(f"remote{hashlib.sha256(name.encode()).hexdigest()[:16]}.root").resolve()
    with urllib.request.urlopen(
        urllib.request.Request(name, headers=headers), timeout=60, context=trust
    ) as answer:
        copy.write_bytes(answer.read())
    return str(copy)


def content_of(events: Arrays) -> Any:
    """Return the last branch: those of the event's number come first."""
    return list(events.values())[-1]


def mix(process: Any, batch: Batch) -> None:
    """Add to each event a number of one pileup event, file by file in the order of the configuration."""
    for module in process.producers_().values():
        if module.type_() in ("MixingModule", "DataMixingModule", "PreMixingModule"):
            source = getattr(module, "input", None) or module.secsource
            names = source.fileNames.value()
            numbers = [content_of(open_file(name)) for name in names]
            pool = np.concatenate(numbers)
            batch.events["pileup"] = np.resize(pool, len(batch.events[RUN])).astype("f4")
            batch.files += [
                Read(name, len(one), [], "mixingFiles") for name, one in zip(names, numbers, strict=True)
            ]


def select(process: Any, batch: Batch) -> None:
    """Keep the share of the events that a filter of the type StandInFilter names, by the event number."""
    for module in process.filters_().values():
        if module.type_() == "StandInFilter":
            kept = (batch.events[EVENT] * 2654435761 % 2**32) < module.efficiency.value() * 2**32
            batch.events = {branch: array[kept] for branch, array in batch.events.items()}


def save_histograms(process: Any, batch: Batch) -> list[str]:
    """Write a file of histograms per run, or one for all if a number is forced; return their names."""
    names = []
    for saver in process.analyzers_().values():
        if saver.type_() != "DQMFileSaver":
            continue
        forced = saver.forceRunNumber.value() if hasattr(saver, "forceRunNumber") else -1
        title = saver.workflow.value().strip("/").replace("/", "__")
        runs = batch.events[RUN] if forced < 0 else np.full(len(batch.events[RUN]), forced)
        for run in np.unique(runs):
            names.append(f"DQM_V0001_R{run:09d}__{title}.root")
            lumis = batch.events[LUMI][runs == run]
            counted = np.histogram(lumis, bins=int(lumis.max()), range=(0.5, lumis.max() + 0.5))
            with uproot.recreate(names[-1]) as target:
                target[f"DQMData/Run {run}/EventInfo/lumis"] = counted
    return names


def write(path: str, events: Arrays) -> None:
    with uproot.recreate(path) as target:
        target.mktree(TREE, {branch: array.dtype for branch, array in events.items()})
        if len(events[RUN]):
            target[TREE].extend(events)
