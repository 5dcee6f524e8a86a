"""B31 and B33: the work of a job on a worker node, against the same work without WMS2."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.dagfiles import WORKFLOW_ID, scratch
from benchmarks.harness import Measured, Sample, alternate, timed
from benchmarks.run import Run
from rootfiles.generate import Generation, generate
from rootfiles.skim import Selection
from sandbox.build import build_sandbox, copy_run_script
from sandbox.places import Places

ROOT = Path(__file__).resolve().parents[1]
DISTINCT_FILES, FILES, FILE_EVENTS, LUMI_EVENTS = 5, 100, 100_000, 1000
NODE, SITE = "proc_000000", "T2_CH_CERN"
DATASET = "/Bench/Run2026-v1/GEN"
PAYLOAD = 'echo 1 >"$1"'  # the payload: a minimal program with an output


def merge_files(run: Run) -> Measured:
    """B31. Both write one file to disk. The merge starts Python, as in a job, and counts lumis."""
    directory = scratch()
    sources = [str(path) for path in _root_files(directory, run.size(FILES, 2))]
    target = directory / "merged.root"
    task, result = directory / "task.json", directory / "result.json"
    task.write_text(json.dumps({"sources": sources, "target": str(target)}))
    own = [sys.executable, "-m", "rootfiles", "merge", str(task), str(result)]
    pairs = alternate(_synced(own, target), timed(lambda: _copy(sources, target)), repeat=run.repeat)
    size = sum(Path(source).stat().st_size for source in sources)
    note = f"{len(sources)} files, {size / 1e6:.0f} MB"
    if hadd := shutil.which("hadd"):
        theirs = alternate(
            _synced([hadd, "-f", "-fk", str(target), *sources], target),
            timed(lambda: _copy(sources, target)),
            repeat=run.repeat,
        )
        note += f"; hadd {theirs.ratio:.2g}×"
    return Measured(pairs.ratio, pairs.as_samples(), note=note, spread=pairs.spread)


def _root_files(directory: Path, count: int) -> list[Path]:
    """Return some ROOT files and copies of them."""
    paths = [directory / f"{number}.root" for number in range(count)]
    for number, path in enumerate(paths[:DISTINCT_FILES]):
        first = 1 + number * FILE_EVENTS
        plan = Generation(1, first, first + FILE_EVENTS - 1, 1, LUMI_EVENTS, 1)
        generate(plan, [str(path)], Selection())
    for number, path in enumerate(paths[DISTINCT_FILES:]):
        shutil.copyfile(paths[number % DISTINCT_FILES], path)
    return paths


def _synced(command: Sequence[str], target: Path) -> Sample:
    def work() -> None:
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        with target.open("rb") as written:
            os.fsync(written.fileno())

    return timed(work)


def _copy(sources: Sequence[str], target: Path) -> None:
    with target.open("wb") as joined:
        for source in sources:
            joined.write(Path(source).read_bytes())
        joined.flush()
        os.fsync(joined.fileno())


def wrap_a_job(run: Run) -> Measured:
    """B33. CPU time of a whole job with a minimal payload, minus that of the payload."""
    directory = scratch()
    _write_job(directory)
    command = ["./run.sh", "processing", NODE, SITE]
    environment = {"PATH": os.environ["PATH"], "WMS2_PYTHON": sys.executable}

    def job() -> float:
        place = directory / "job"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(directory / "transferred", place)
        return _cpu_of(command, place, environment)

    def payload() -> float:
        return _cpu_of(["sh", "-c", PAYLOAD, "sh", "bare.out"], directory, environment)

    pairs = alternate(job, payload, repeat=run.size(15, 2))
    report = json.loads((directory / "job" / "back" / f"{NODE}.report.json").read_text())
    if report["exit_code"]:
        raise RuntimeError(f"the job failed: {report['error']}")
    added = median(pairs.candidate) - median(pairs.reference)
    return Measured(
        added, pairs.as_samples(), note="a job of a sandbox, output staged out to a mounted storage"
    )


def _write_job(directory: Path) -> None:
    """Write the files that HTCondor would transfer to the worker node."""
    place, storage = directory / "transferred", directory / "storage"
    place.mkdir()
    storage.mkdir()
    build_sandbox(place / "sandbox.tar.gz")
    copy_run_script(place / "run.sh")
    plan = {"first_event": 1, "last_event": 1, "first_lumi": 1, "events_per_lumi": 1, "run": 1}
    generated = plan | {"numbering_from": 1}
    job: dict[str, Any] = {"files": [], "generate": generated, "mask": None, "events": 1}
    output = {"dataset": DATASET, "unmerged_base": "/store/unmerged/b", "merged_base": "/store/mc/b"}
    manifest = {
        "schema": 1, "request_name": "bench", "workflow_id": WORKFLOW_ID, "round": 0, "group": "mg_000000",
        "storage": "", "outputs": [output], "pilot": None, "merged_ids": {DATASET: "0" * 32},
        "jobs": {NODE: job},
    }  # fmt: skip
    command = ["sh", "-c", PAYLOAD, "sh", "part0.0.root"]
    payload = {"kind": "command", "command": command, "merge": {"tool": "concat"}}
    (place / "jobs.json").write_text(json.dumps(manifest))
    (place / "payload.json").write_text(json.dumps(payload))
    (place / "storage.json").write_bytes(Places({SITE: (str(storage),)}).as_json())


def _cpu_of(command: Sequence[str], directory: Path, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=directory, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
