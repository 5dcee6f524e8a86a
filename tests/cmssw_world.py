"""A worker node with the stand-in for CMS software, and configurations and ROOT files for it.

Used by tests of the sandbox, of documents and of the whole stack.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uproot

from lab.cvmfs import install
from sandbox import wrapper
from sandbox.build import RUN_SCRIPT, build_sandbox
from tests.forking import run_forked

SITE = "T2_CH_CERN"
WORKFLOW = "6f1c2f6e-2c39-4f6e-9f0f-0123456789ab"
NODE = "proc_000000"
SEEDS = (
    'process.RandomNumberGeneratorService = cms.Service("RandomNumberGeneratorService",'
    " generator=cms.PSet(initialSeed=cms.untracked.uint32(1)))\n"
)


def build_pset(*modules: str, source: str = "PoolSource", more: str = "") -> str:
    """Return a configuration with these output modules."""
    text = (
        "import FWCore.ParameterSet.Config as cms\n"
        'process = cms.Process("TEST")\n'
        f'process.source = cms.Source("{source}")\n{SEEDS}'
    )
    for module in modules:
        name = f'cms.untracked.string("{module}.root")'
        text += f'process.{module} = cms.OutputModule("PoolOutputModule", fileName={name})\n'
    return text + more


MIXING = (
    'process.mix = cms.EDProducer("MixingModule",'
    ' input=cms.SecSource("EmbeddedRootSource", fileNames=cms.untracked.vstring("file:/none")))\n'
)


def halving() -> str:
    """Return a filter for a configuration that keeps half of the events."""
    return 'process.half = cms.EDFilter("StandInFilter", efficiency=cms.double(0.5))\n'


def write_root(path: Path, *, run: int, first_lumi: int, lumis: int, first_event: int, events: int) -> None:
    """Write a ROOT file whose lumis hold equally many events."""
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = np.arange(events)
    per_lumi = -(-events // lumis) if events else 1
    content = {
        "run": np.full(events, run, "u4"),
        "luminosityBlock": (first_lumi + numbers // per_lumi).astype("u4"),
        "event": (first_event + numbers).astype("u8"),
        "mass": np.linspace(60, 120, events).astype("f4"),
    }
    with uproot.recreate(path) as target:
        target.mktree("Events", {name: array.dtype for name, array in content.items()})
        if events:
            target["Events"].extend(content)


def read_root(path: Path) -> list[tuple[int, int, int]]:
    """Return run, lumi and number of every event of a file, in its order."""
    with uproot.open({str(path): "Events"}) as tree:
        found = tree.arrays(["run", "luminosityBlock", "event"], library="np")
    names = ("run", "luminosityBlock", "event")
    return list(zip(*(found[name].tolist() for name in names), strict=True))


def read_branch(path: Path, name: str) -> list[float]:
    with uproot.open({str(path): "Events"}) as tree:
        return [float(value) for value in tree[name].array(library="np")]


def read_lumi_histogram(path: Path) -> tuple[int, dict[int, int]]:
    """Return the run of a file of harvested histograms, and the entries of each lumi."""
    with uproot.open(path) as file:
        (name,) = file.keys(filter_classname="TH1D", cycle=False)
        values = file[name].values()
    counts = {lumi: int(entries) for lumi, entries in enumerate(values, 1) if entries}
    return int(name.split("/")[1].removeprefix("Run ")), counts


def file_facts(path: Path) -> tuple[int, str]:
    data = path.read_bytes()
    return len(data), f"{zlib.adler32(data):08x}"


def build_step(
    name: str, modules: dict[str, str], *, outputs: dict[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    """Return one step of a payload_config; `modules`: the tier of each."""
    step = {
        "name": name,
        "release": "CMSSW_14_0_0",
        "arch": "el8_amd64_gcc12",
        "modules": {label: {"tier": tier, "filter": ""} for label, tier in modules.items()},
        "outputs": outputs or {},
    }
    return step | more


@dataclass
class Node:
    """Runs the jobs of one group, each in a scratch directory as HTCondor's file transfer fills it."""

    root: Path
    tarball: Path
    software: Path
    payload: dict[str, Any] = field(default_factory=dict)
    psets: dict[str, str] = field(default_factory=dict)
    datasets: list[str] = field(default_factory=list)
    jobs: dict[str, Any] = field(default_factory=dict)
    pilot: dict[str, Any] | None = None
    cores: int = 1
    variables: dict[str, str] = field(default_factory=dict)
    document: dict[str, Any] | None = None  # a manifest that WMS2 planned
    processes: bool = False  # by the real executable instead of a forked process

    @property
    def storage(self) -> Path:
        return self.root / "storage" / SITE

    def use_steps(self, steps: list[dict[str, Any]], programs: list[str], **payload: Any) -> None:
        """Set the payload: the steps, pinned to their configurations."""
        self.psets = {f"pset_{number}.py": text for number, text in enumerate(programs, 1)}
        for step, (name, text) in zip(steps, self.psets.items(), strict=True):
            step |= {"pset": name, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        self.payload = {"kind": "cmssw", "cmssw": {"steps": steps}, **payload}
        self.datasets = [dataset for step in steps for dataset in step["outputs"].values()]

    def add_input(self, name: str, *, events: int = 40, **numbers: int) -> dict[str, Any]:
        """Put a ROOT file on storage and return the window that covers all of it."""
        lfn = f"/store/data/{name}.root"
        path = Path(f"{self.storage}{lfn}")
        write_root(
            path, events=events, **{"run": 1, "first_lumi": 1, "lumis": 4, "first_event": 1, **numbers}
        )
        size, adler32 = file_facts(path)
        window = {"first_event": 0, "last_event": events - 1, "events": events}
        return {"lfn": lfn, "size_bytes": size, "adler32": adler32, **window}

    def read_job(self, files: list[dict[str, Any]], *, mask: Any = None, node: str = NODE) -> None:
        events = sum(file["last_event"] - file["first_event"] + 1 for file in files)
        self.jobs[node] = {"files": files, "generate": None, "mask": mask, "events": events}

    def generate_job(self, first: int, last: int, *, node: str = NODE, **more: int) -> None:
        plan = {"first_lumi": 1, "events_per_lumi": 10, "run": 1, "numbering_from": first, **more}
        generate = {"first_event": first, "last_event": last, **plan}
        self.jobs[node] = {"files": [], "generate": generate, "mask": None, "events": last - first + 1}

    def manifest(self) -> dict[str, Any]:
        return self.document or {
            "schema": 1,
            "request_name": "cmssw_request_1",
            "workflow_id": WORKFLOW,
            "round": 0,
            "group": "mg_000000",
            "storage": f"{self.root}/storage/{{site}}",
            "outputs": [
                {"dataset": name, "unmerged_base": f"/store/unmerged/{n}", "merged_base": f"/store/mc/{n}"}
                for n, name in enumerate(self.datasets)
            ],
            "pilot": self.pilot,
            "merged_ids": {name: f"{number:032x}" for number, name in enumerate(self.datasets)},
            "jobs": self.jobs,
            "cores": self.cores,
        }

    def run(self, node: str = NODE) -> dict[str, Any]:
        """Run a node and return its report."""
        place, reports = self.root / "scratch" / node, self.root / "reports"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        reports.mkdir(exist_ok=True)
        shutil.copy(RUN_SCRIPT, place)
        shutil.copy(self.tarball, place / "sandbox.tar.gz")
        (place / "jobs.json").write_text(json.dumps(self.manifest()))
        (place / "payload.json").write_text(json.dumps(self.payload))
        for name, text in self.psets.items():
            (place / name).write_text(text)
        role = node if node in ("merge", "cleanup") else "processing"
        if role != "processing":
            shutil.copytree(reports, place / "reports")
        environment = {
            "PATH": os.environ["PATH"],
            "WMS2_PYTHON": sys.executable,
            "VO_CMS_SW_DIR": str(self.software),
            **self.variables,
        }
        words = [role, node, SITE]
        if self.processes:
            command = ["./run.sh", *words]
            status = subprocess.run(command, cwd=place, env=environment, check=False).returncode
        else:
            status = run_forked(lambda: wrapper.main(words), directory=place, environment=environment)
        shutil.copytree(place / "back", reports, dirs_exist_ok=True)
        report: dict[str, Any] = json.loads((reports / f"{node}.report.json").read_text())
        assert bool(status) == bool(report["exit_code"])
        return report

    def path(self, lfn: str) -> Path:
        return Path(f"{self.storage}{lfn}")

    def events(self, report: dict[str, Any], dataset: str) -> list[tuple[int, int, int]]:
        """Return the events of a node's output file of a dataset."""
        lfn = next(one["lfn"] for one in report["outputs"] if one["dataset"] == dataset)
        return read_root(self.path(lfn))


def build_node(root: Path, tarball: Path, software: Path) -> Node:
    node = Node(root=root, tarball=tarball, software=software)
    node.storage.mkdir(parents=True)
    return node


def build_parts(directory: Path) -> tuple[Path, Path]:
    """Return a sandbox tarball and an installed stand-in for CMS software."""
    tarball = directory / "sandbox.tar.gz"
    build_sandbox(tarball)
    return tarball, install(directory / "cvmfs")
