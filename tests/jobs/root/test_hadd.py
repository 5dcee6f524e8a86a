"""Merging by `hadd` of content that uproot cannot join; by ROOT's own program if it is on PATH.

The set-up does not install it: it comes with the package `root`, which takes 600 MB.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import uproot

from sandbox.filefacts import checksum
from tests.jobs.root.test_rootdemo import MERGED, generate_job

if TYPE_CHECKING:
    from tests.job_world import World

NODES = ("proc_000000", "proc_000001")
COPY = """
import json, os, shutil, sys
task = json.load(open(os.environ["WMS2_JOB"]))
shutil.copy(f"{sys.argv[1]}/{task['node']}.root", task["outputs"][0]["path"])
json.dump({"schema": 1, "outputs": [{"events": 40}]}, open(os.environ["WMS2_REPORT"], "w"))
"""
STAND_IN = """#!{python}
import sys
import numpy as np, uproot
force, keep, target, *sources = sys.argv[1:]
assert (force, keep) == ("-f", "-fk")
events, histogram = [], 0
for source in sources:
    try:
        with uproot.open(source) as file:
            events.append(file["Events"]["event"].array(library="np"))
            histogram = histogram + file["numbers"].values()
            edges = file["numbers"].axis().edges()
    except Exception:
        sys.exit(f"Error in <hadd>: exiting due to error in {{source}}\\nError in <hadd>: failure")
with uproot.recreate(target) as file:
    file.mktree("Events", {{"event": np.int64}}).extend({{"event": np.concatenate(events)}})
    file["numbers"] = (histogram, edges)
"""


def write_histogram(path: Path, first: int, last: int) -> None:
    """Write a file with a tree and a histogram."""
    events = np.arange(first, last + 1)
    with uproot.recreate(path) as file:
        file.mktree("Events", {"event": np.int64}).extend({"event": events})
        file["numbers"] = np.histogram(events, bins=10, range=(0, 100))


@pytest.fixture
def world(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return two jobs that wrote a tree and a histogram each, on a node that has `hadd`."""
    if not shutil.which("hadd"):
        place = tmp_path / "bin"
        place.mkdir()
        (place / "hadd").write_text(STAND_IN.format(python=sys.executable))
        (place / "hadd").chmod(0o755)
        monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    world.forked = True
    world.payload = {"command": [sys.executable, "-S", "-c", COPY, str(tmp_path)], "merge": {"tool": "root"}}
    for number, node in enumerate(NODES):
        first, last = 40 * number + 1, 40 * number + 40
        write_histogram(tmp_path / f"{node}.root", first, last)
        generate_job(world, node, first, last)
    world.plan()
    for node in NODES:
        world.run(node)
    return world


def replace_output(world: World, node: str, content: bytes) -> str:
    """Replace the output and the report of a job; return its LFN."""
    output = world.report(node)["outputs"][0]
    path = Path(f"{world.storage}{output['lfn']}")
    path.write_bytes(content)
    size, adler32 = checksum(path)
    report = world.reports / f"{node}.report.json"
    text = report.read_text().replace(output["adler32"], adler32)
    report.write_text(text.replace(f'"size_bytes":{output["size_bytes"]}', f'"size_bytes":{size}'))
    return str(output["lfn"])


def test_histograms_are_added_and_every_event_is_kept_once(world: World) -> None:
    world.run("merge")

    assert (world.report("merge")["error"], world.report("merge")["events_written"]) == ("", 80)
    with uproot.open(f"{world.storage}{MERGED}") as file:
        assert file["Events"]["event"].array(library="np").tolist() == list(range(1, 81))
        assert file["numbers"].values().tolist() == [9, *[10] * 7, 1, 0]


@pytest.mark.parametrize("has_uproot", [True, False])
def test_a_broken_input_is_named(world: World, monkeypatch: pytest.MonkeyPatch, has_uproot: bool) -> None:
    world.processes = True
    lfn = replace_output(world, NODES[1], b"not a ROOT file" * 100)
    if not has_uproot:  # neither does this Python have it outside of the virtual environment
        monkeypatch.setenv("PATH", os.environ["PATH"].replace(f"{sys.prefix}/bin:", ""))
        monkeypatch.setattr(sys, "executable", os.path.realpath(sys.executable))
    world.run("merge")
    merged = world.report("merge")

    assert (merged["exit_code"], merged["bad_inputs"]) == (8021, [lfn])
    assert ("hadd cannot read it" in merged["error"]) is not has_uproot


def test_a_file_with_other_events_than_reported_is_refused_by_job(world: World, tmp_path: Path) -> None:
    path = tmp_path / "other.root"
    write_histogram(path, 41, 79)
    lfn = replace_output(world, NODES[1], path.read_bytes())
    world.run("merge")

    assert f"{NODES[1]}: events of {lfn}: claimed 40, the file has 39" in world.report("merge")["error"]
