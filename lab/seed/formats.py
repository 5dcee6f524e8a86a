"""The formats of sample data, event files of the toy or ROOT files, and the payload that reads each."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.seed.datasets import InputFile
from lab.toy.eventfile import write_events
from rootfiles.generate import Generation, generate
from rootfiles.inspect import inspect
from rootfiles.skim import Selection
from sandbox.filefacts import FileFacts, checksum
from sandbox.lumis import union

Payload = Callable[..., dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Format:
    """Format of files: how they are written, the payload configuration, and events per event of the toy."""

    kind: str
    store: Callable[[InputFile, list[Path]], FileFacts]
    payload: Payload
    scale: int


def _store_events(file: InputFile, paths: list[Path]) -> FileFacts:
    """Write the file. The bytes are always the same, so that writing again repairs a damaged copy."""
    for path in paths:
        facts = write_events(path, file.contents())
    return facts


def _store_root(file: InputFile, paths: list[Path]) -> FileFacts:
    """Write a ROOT file once and copy it: a second one would have other bytes. Existing files are kept."""
    first, *others = paths
    if not first.exists():
        last, per_lumi = file.first_event + file.events - 1, -(-file.events // file.lumis)
        plan = Generation(file.run, file.first_event, last, file.first_lumi, per_lumi, file.first_event)
        generate(plan, [str(first)], Selection())
    for path in others:
        shutil.copyfile(first, path)
    counts = inspect(str(first)).lumi_events or {}
    lumi_events = {int(run): parts for run, parts in counts.items()}
    lumis = union([{run: [[low, high] for low, high, _ in parts]} for run, parts in lumi_events.items()])
    return FileFacts(*checksum(first), file.events, lumis, lumi_events)


def _toy_payload(*, cpu_sec_per_event: float, filter_efficiency: float | None = None) -> dict[str, Any]:
    """Return a toy configuration with little work, for a machine shared by the whole lab."""
    knobs = {"cpu_sec_per_event": cpu_sec_per_event, "output_kb_per_event": 0.0625}
    return {"toy": knobs if filter_efficiency is None else {**knobs, "filter_efficiency": filter_efficiency}}


def _root_payload(*, cpu_sec_per_event: float, filter_efficiency: float | None = None) -> dict[str, Any]:
    section = {} if filter_efficiency is None else {"filter_efficiency": filter_efficiency}
    return {"kind": "root-demo", "root_demo": section}


TOY = Format("toy", _store_events, _toy_payload, scale=1)
ROOT_DEMO = Format("root-demo", _store_root, _root_payload, scale=10)
FORMATS = {one.kind: one for one in (TOY, ROOT_DEMO)}
