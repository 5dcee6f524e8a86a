"""The kinds of payloads on the real pool: a program of the requestor, and real ROOT files.

The requests run at the same time; each test waits for its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
import requests
import uproot

from dags_app.adapters import dbs, rucio
from lab.seed.__main__ import seed
from lab.seed.documents import monte_carlo
from lab.seed.formats import ROOT_DEMO
from lab.seed.storage import Storage
from outputs_app.models import OutputBlock, OutputFile
from tests.e2e.conftest import Json, Stack

JOBS, EVENTS = 4, 10
PYTHIA = importlib.util.find_spec("pythia8mc")  # wheels exist for x86_64 only
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the numbers it needs from $WMS2_JOB, writes one line per event, and reports what it did. */
static long number(const char *text, const char *key) {
    const char *found = strstr(text, key);
    if (!found) exit(3);
    return atol(found + strlen(key));
}

int main(void) {
    static char text[1 << 16], path[4096];
    FILE *task = fopen(getenv("WMS2_JOB"), "r");
    if (!task) return 2;
    text[fread(text, 1, sizeof text - 1, task)] = 0;
    fclose(task);
    long first = number(text, "\"first_event\":"), last = number(text, "\"last_event\":");
    const char *start = strstr(text, "\"path\":\"") + 8;
    memcpy(path, start, strcspn(start, "\""));
    FILE *out = fopen(path, "w");
    for (long n = first; n <= last; n++) fprintf(out, "%ld %s\n", n, getenv("COLOUR"));
    fclose(out);
    FILE *report = fopen(getenv("WMS2_REPORT"), "w");
    fprintf(report, "{\"schema\": 1, \"outputs\": [{\"events\": %ld}]}", last - first + 1);
    fclose(report);
    return 0;
}
"""
SCRIPT = """#!/usr/bin/env python3
import json, os
task = json.load(open(os.environ["WMS2_JOB"]))
first, last = task["generate"]["first_event"], task["generate"]["last_event"]
with open(task["outputs"][0]["path"], "w") as out:
    for n in range(first, last + 1):
        out.write(f"{n} {os.environ['COLOUR']}\\n")
with open(os.environ["WMS2_REPORT"], "w") as report:
    json.dump({"schema": 1, "outputs": [{"events": last - first + 1}]}, report)
"""


def program(place: Path) -> bytes:
    """Return a compiled program, or a script where there is no compiler."""
    compiler, built = shutil.which("cc"), place / "generate"
    if compiler is None:
        return SCRIPT.encode()
    (place / "generate.c").write_text(SOURCE)
    subprocess.run([compiler, "-O1", "-o", str(built), str(place / "generate.c")], check=True)
    return built.read_bytes()


def tarball(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo("bin/generate")
        entry.size, entry.mode = len(content), 0o755
        archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def upload(stack: Stack, data: bytes) -> str:
    answer = stack.api.put(
        f"{stack.url}/api/v1/sandboxes", data=data, headers={"Content-Type": "application/gzip"}, timeout=60
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["sandbox_sha256"])


def generated_by_pythia(suffix: str) -> Json:
    document = monte_carlo(suffix=f"p{suffix}", format_=ROOT_DEMO)
    small = {"RequestNumEvents": 300, "EventsPerJob": 100, "EventsPerLumi": 50, "FilterEfficiency": 1.0}
    config = {"kind": "root-demo", "root_demo": {"engine": "pythia", "detail": "hard"}}
    return document | small | {"Urgent": True, "PayloadConfig": config}


class Started:
    """One request of each kind, submitted together."""

    def __init__(self, stack: Stack, place: Path) -> None:
        self.stack, suffix = stack, uuid4().hex[:9]
        data = tarball(program(place))
        self.digest = upload(stack, data)
        assert self.digest == hashlib.sha256(data).hexdigest()
        self.names = {tool: self.submit(f"{tool}{suffix}", tool) for tool in ("concat", "copy")}
        storage = Storage(stack.storage_prefix)
        rereco, generated, skimmed = seed(stack.cms_url, storage, f"k{suffix}", ROOT_DEMO)
        self.names["generated"] = stack.post("requests", generated | {"Urgent": True})["request_name"]
        self.names["skimmed"] = stack.post("requests", skimmed)["request_name"]
        self.input_dataset = skimmed["InputDataset"]
        self.merged_inputs = [rereco["InputDataset"], skimmed["InputDataset"]]
        self.names["merged"] = self.merge(f"m{suffix}", rereco)
        if PYTHIA:
            self.names["pythia"] = stack.post("requests", generated_by_pythia(suffix))["request_name"]

    def submit(self, suffix: str, tool: str) -> str:
        config = {
            "kind": "command",
            "command": ["bin/generate"],
            "environment": {"COLOUR": "red"},
            "merge": {"tool": tool},
        }
        document = monte_carlo(suffix=suffix) | {
            "Urgent": True, "RequestNumEvents": JOBS * EVENTS, "EventsPerJob": EVENTS,
            "EventsPerLumi": EVENTS, "FilterEfficiency": 1.0, "PayloadConfig": config,
            "SandboxSha256": self.digest,
        }  # fmt: skip
        return str(self.stack.post("requests", document)["request_name"])

    def merge(self, suffix: str, document: Json) -> str:
        """Submit a request that joins the files of two datasets."""
        document = document | {
            "RequestName": f"merge_{suffix}", "InputDatasets": self.merged_inputs, "FilesPerJob": 3,
            "OutputDatasets": [f"/SingleMuon/Run2024A-Merged{suffix}-v1/RAW"],
            "PayloadConfig": {"kind": "merge"}, "LogDataset": f"/SingleMuon/Run2024A-Merged{suffix}-v1/LOG",
        }  # fmt: skip
        del document["InputDataset"]
        return str(self.stack.post("requests", document)["request_name"])

    def outputs(self, kind: str) -> list[tuple[OutputFile, Path]]:
        """Return the announced files of the request's first dataset with their paths on the storage."""
        self.stack.wait_for(self.names[kind], "completed")
        rows = OutputFile.objects.filter(
            block__dataset__workflow__request_name=self.names[kind], block__dataset__in_dbs=True
        )
        return [(row, self.path_of(row)) for row in rows.select_related("block").order_by("lfn")]

    def path_of(self, row: OutputFile) -> Path:
        return Path(self.stack.storage_prefix.replace("{site}", row.block.site) + row.lfn)


@pytest.fixture(scope="module")
def started(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Started:
    return Started(stack, tmp_path_factory.mktemp("program"))


def lines(files: list[tuple[OutputFile, Path]]) -> list[str]:
    return [line for _, path in files for line in path.read_text().splitlines()]


@pytest.mark.parametrize(("tool", "files"), [("concat", 1), ("copy", JOBS)])
def test_a_program_of_the_requestor_runs_from_its_tarball(started: Started, tool: str, files: int) -> None:
    found = started.outputs(tool)

    assert len(found) == files
    assert sorted(lines(found)) == sorted(f"{number} red" for number in range(1, JOBS * EVENTS + 1))
    assert sum(row.events for row, _ in found) == JOBS * EVENTS
    for row, path in found:
        assert row.size_bytes == path.stat().st_size
        assert row.checked_at is not None
        assert not row.checked_content, "only its size and checksum can be compared"


def events(path: Path) -> dict[str, Any]:
    with uproot.open({str(path): "Events"}) as tree:
        return {str(name): array for name, array in tree.arrays(library="np").items()}


def numbers(found: list[tuple[OutputFile, Path]]) -> list[tuple[int, int]]:
    arrays = [events(path) for _, path in found]
    return [pair for one in arrays for pair in zip(one["run"].tolist(), one["event"].tolist(), strict=True)]


def test_merged_root_files_hold_every_input_event_once(started: Started) -> None:
    found = started.outputs("skimmed")
    wanted = sum(file.events for file in started.stack.lab_files(started.input_dataset))

    read = numbers(found)
    assert len(read) == len(set(read)) == wanted
    assert [row.events for row, _ in found] == [len(events(path)["event"]) for _, path in found]
    assert all(row.checked_content for row, _ in found), (
        "WMS2 has counted them itself before DBS heard of them"
    )


def test_files_of_two_datasets_are_merged_into_fewer_with_every_event_once(started: Started) -> None:
    found = started.outputs("merged")
    inputs = [file for dataset in started.merged_inputs for file in started.stack.lab_files(dataset)]

    read = numbers(found)
    assert len(found) < len(inputs)
    assert len(read) == len(set(read)) == sum(file.events for file in inputs)


def test_log_files_are_in_rucio_only(started: Started) -> None:
    started.outputs("merged")
    block = OutputBlock.objects.filter(
        dataset__workflow__request_name=started.names["merged"], dataset__in_dbs=False
    )[0]

    assert dbs().dataset(block.dataset.dataset_name) is None
    counts = rucio().block_counts(block.block_name)
    assert counts is not None
    assert counts.files == block.files.count() > 0
    with tarfile.open(started.path_of(block.files.all()[0])) as archive:
        names = set(archive.getnames())
    assert {"merge.report.json", "merge.fjr.xml", "merge.out"} <= names
    assert any(name.startswith("proc_") and name.endswith(".out") for name in names)


def test_generated_root_files_hold_a_z_peak_and_no_event_twice(started: Started) -> None:
    found = started.outputs("generated")

    read = numbers(found)
    assert len(read) == len(set(read)) == sum(row.events for row, _ in found)
    masses = np.concatenate([events(path)["dimuon_mass"] for _, path in found])
    assert float(np.median(masses)) == pytest.approx(91.19, abs=0.2)


@pytest.mark.skipif(not PYTHIA, reason="pythia8mc has no wheel for this machine")
def test_pythia_generates_events_of_a_z_on_the_pool(started: Started) -> None:
    found = started.outputs("pythia")

    read = numbers(found)
    assert sorted(number for _, number in read) == list(range(1, 301))
    arrays = [events(path) for _, path in found]
    masses = np.concatenate([one["dimuon_mass"] for one in arrays])
    assert float(np.median(masses)) == pytest.approx(91.0, abs=1.0)
    assert len(np.unique(masses)) > 295, "each job has a seed of its own"
    particles = np.concatenate([one["nParticle"] for one in arrays])
    assert particles.max() < 10, "Pythia was asked for the hard process only; NumPy draws about 80 particles"


def test_a_request_that_names_no_files_of_its_own_is_refused(stack: Stack, started: Started) -> None:
    body: Json = monte_carlo(suffix=uuid4().hex[:9]) | {
        "PayloadConfig": {"command": ["bin/generate"]}, "SandboxSha256": "0" * 64,
    }  # fmt: skip
    answer = requests.post(
        f"{stack.url}/api/v1/requests", json=body, headers=dict(stack.api.headers), timeout=30
    )

    assert answer.status_code == 422
    assert "uploaded" in answer.text
