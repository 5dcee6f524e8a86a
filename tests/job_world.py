"""A small world for the sandbox: a site's storage, a group directory, and worker nodes that run in it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.toy.eventfile import Event, read_events, write_events
from sandbox import post_script, registry, wrapper
from sandbox.build import RUN_SCRIPT, build_sandbox, copy_scripts
from sandbox.places import Places
from tests.forking import run_forked

NODE = "proc_000000"
SITE = "T2_CH_CERN"
DATASET = "/Toy/Run2026-Test-v1/RECO"
SECOND = "/Toy/Run2026-Test-v1/AOD"
WORKFLOW = "6f1c2f6e-2c39-4f6e-9f0f-0123456789ab"
RUN = 316877
PLUGINS = ("lab.toy",)
LOG = """000 (007.000.000) 2026-11-16 02:01:46 Job submitted from host: <127.0.0.1:15115>
    DAG Node: proc_000000
...
001 (007.000.000) 2026-11-16 02:01:47 Job executing on host: <127.0.0.1:15115>
\tSlotName: slot2_1@localhost.localdomain
\tGLIDEIN_CMSSite = "T1_US_FNAL"
\tMemory = 128
...
006 (007.000.000) 2026-11-16 02:01:50 Image size of job updated: 900000
\t777  -  MemoryUsage of job (MB)
\t790000  -  ResidentSetSize of job (KB)
...
012 (007.000.000) 2026-11-16 02:02:10 Job was held.
\tError from slot2_1@localhost.localdomain: Job has gone over memory limit of 128 megabytes.
\tCode 34 Subcode 0
...
009 (007.000.000) 2026-11-16 02:02:20 Job was aborted.
\tThe job attribute PeriodicRemove expression 'JobStatus == 5' evaluated to TRUE
...
"""


@dataclass
class World:
    """One group of jobs, its storage and its directory on the submit host."""

    root: Path
    tarball: Path
    monkeypatch: pytest.MonkeyPatch
    processes: bool = False  # by the real executables
    forked: bool = False  # each node in a forked process: a job ends every process below it
    datasets: tuple[str, ...] = (DATASET,)
    payload: dict[str, Any] = field(default_factory=dict)
    pilot: dict[str, Any] | None = None
    jobs: dict[str, Any] = field(default_factory=dict)
    attempt: int = 0
    cores: int | None = None
    lumis: dict[str, Any] | None = None  # of the input files, as the catalogue knows them
    log: dict[str, str] | None = None
    prefixes: list[str] | None = None  # of the site's storage; None = as DAGs of earlier versions have it

    def __post_init__(self) -> None:
        """Register the toy payload for nodes that run inside the test's process."""
        shipped = self.root / "plugins.json"
        shipped.write_text(json.dumps(PLUGINS))
        self.monkeypatch.setattr(registry, "PLUGINS_FILE", shipped)
        self.monkeypatch.setattr(wrapper, "REGISTRY", registry.load_registry(PLUGINS))

    @property
    def group(self) -> Path:
        return self.root / "mg_000000"

    @property
    def reports(self) -> Path:
        return self.group / "reports"

    @property
    def storage(self) -> Path:
        return self.root / "storage" / SITE

    def add_file(self, name: str, events: int, first: int = 1, per_lumi: int = 10) -> dict[str, Any]:
        """Put an input file on storage and return the window that covers all of it."""
        path = self.storage / f"store/data/{name}.root"
        path.parent.mkdir(parents=True, exist_ok=True)
        facts = write_events(
            path, [Event(RUN, 1 + (n - 1) // per_lumi, n, f"{n:08x}") for n in range(first, first + events)]
        )
        return {
            "lfn": f"/store/data/{name}.root",
            "size_bytes": facts.size_bytes,
            "adler32": facts.adler32,
            "events": events,
            "first_event": 0,
            "last_event": events - 1,
        }

    def add_job(self, node: str, files: list[dict[str, Any]], mask: Any = None) -> None:
        events = sum(file["last_event"] - file["first_event"] + 1 for file in files)
        self.jobs[node] = {"files": files, "generate": None, "mask": mask, "events": events}

    def document(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "request_name": "toy_request_1",
            "workflow_id": WORKFLOW,
            "round": 0,
            "group": "mg_000000",
            "storage": f"{self.root}/storage/{{site}}",
            "outputs": [
                {"dataset": name, "unmerged_base": "/store/unmerged/toy", "merged_base": "/store/data/toy"}
                for name in self.datasets
            ],
            "pilot": self.pilot,
            "merged_ids": {name: f"{number:032x}" for number, name in enumerate(self.datasets)},
            "jobs": self.jobs,
            **({} if self.cores is None else {"cores": self.cores}),
            **({} if self.lumis is None else {"lumis": self.lumis}),
            **({} if self.log is None else {"log": self.log}),
        }

    def plan(self) -> None:
        self.reports.mkdir(parents=True, exist_ok=True)
        (self.root / "back").mkdir(exist_ok=True)
        shutil.copy(RUN_SCRIPT, self.root)
        shutil.copy(self.tarball, self.root / "sandbox.tar.gz")
        (self.group / "jobs.json").write_text(json.dumps(self.document()))
        (self.root / "payload.json").write_text(json.dumps(self.full_payload()))
        if self.prefixes is not None:
            (self.root / "storage.json").write_bytes(Places({SITE: tuple(self.prefixes)}).as_json())
        nodes = [*self.jobs, "merge", "cleanup"]
        lines = [
            f'VARS {node} NODE="$(JOB)" RETRY="$(RETRY)" MEM="1000" CPUS="1" DISK="1000" WALL="60"\n'
            for node in nodes
        ]
        (self.group / "group.dag").write_text("".join(lines))

    def full_payload(self) -> dict[str, Any]:
        """Return the configuration, by default of the toy or of a command that writes event files."""
        if "command" in self.payload:
            return {"merge": {"tool": "events"}, **self.payload}
        return self.payload if "kind" in self.payload else {"kind": "toy", **self.payload}

    def scratch(self, node: str) -> Path:
        """Return a worker node's fresh scratch directory, filled as HTCondor's file transfer would."""
        place = self.root / "scratch" / node
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        shutil.copy(RUN_SCRIPT, place)
        shutil.copy(self.tarball, place / "sandbox.tar.gz")
        if (self.group / "jobs.json").exists():
            shutil.copy(self.group / "jobs.json", place)
        for name in ("payload.json", "storage.json", "ca.pem"):
            if (self.root / name).exists():
                shutil.copy(self.root / name, place)
        if node in ("merge", "cleanup"):
            shutil.copytree(self.reports, place / "reports")
        return place

    def command(self, node: str, site: str = SITE) -> list[str]:
        role = node if node in ("merge", "cleanup") else "processing"
        return ["./run.sh", role, node, site]

    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "WMS2_ATTEMPT": str(self.attempt), "WMS2_PYTHON": sys.executable}

    def run(self, node: str, site: str = SITE) -> int:
        """Run a node and collect its files."""
        place = self.scratch(node)
        command = self.command(node, site)
        if self.processes:
            ended = subprocess.run(
                command, cwd=place, env=self.environment(), capture_output=True, check=False
            )
            status = ended.returncode
        elif self.forked:
            status = run_forked(
                lambda: wrapper.main(command[1:]), directory=place, environment=self.environment()
            )
        else:
            self.monkeypatch.chdir(place)
            self.monkeypatch.setenv("WMS2_ATTEMPT", str(self.attempt))
            status = wrapper.main(command[1:])
        self.bring_back(place)
        return status

    def bring_back(self, place: Path) -> None:
        shutil.copytree(place / "back", self.reports, dirs_exist_ok=True)

    def report(self, node: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.reports / f"{node}.report.json").read_text())
        return loaded

    def post(self, node: str, status: int, retry: int = 0, job_id: str = "7.0", max_retries: int = 3) -> int:
        """Run the POST script in the group directory, by its launcher if `processes`."""
        arguments = [
            node,
            str(status),
            str(retry),
            str(max_retries),
            job_id,
            "0",
            "0",
            "60",
            "2000",
            "200",
            "3000",
        ]
        if not self.processes:
            self.monkeypatch.chdir(self.group)
            return post_script.guarded_main(arguments)
        copy_scripts(self.root / "scripts", plugins=PLUGINS)
        launched = ["../scripts/post.sh", *arguments]
        return subprocess.run(launched, cwd=self.group, env=self.environment(), check=False).returncode

    def record(self, node: str, attempt: int = 0) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.group / f"{node}.post.{attempt}.json").read_text())
        return loaded

    def events_at(self, lfn: str) -> list[Event]:
        return list(read_events(Path(f"{self.storage}{lfn}")))


@pytest.fixture(scope="session")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sandbox") / "sandbox.tar.gz"
    build_sandbox(path, plugins=PLUGINS)
    return path


@pytest.fixture
def world(tmp_path: Path, tarball: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(root=tmp_path, tarball=tarball, monkeypatch=monkeypatch)
    made.storage.mkdir(parents=True)
    return made


@pytest.fixture
def small_group(world: World) -> World:
    """Return three processing nodes over 100 events, one of them sharing a file with its neighbour."""
    first, second = world.add_file("a", 40), world.add_file("b", 60, first=41)
    world.add_job("proc_000000", [first])
    world.add_job("proc_000001", [{**second, "last_event": 24}])
    world.add_job("proc_000002", [{**second, "first_event": 25}])
    return world


@pytest.fixture
def failed(world: World) -> World:
    """Return a group whose only node can be made to fail by `fail`."""
    world.add_job(NODE, [world.add_file("a", 10)])
    world.plan()
    return world


def fail(world: World, code: int) -> int:
    world.payload = {"toy": {"fail_exit_code": code}}
    world.plan()
    return world.run(NODE)


@pytest.fixture(autouse=True)
def _keep_signal_handlers() -> Iterator[None]:
    kept: dict[signal.Signals, Callable[..., Any] | int | None] = {
        number: signal.getsignal(number) for number in wrapper.SIGNALS
    }
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)
