"""B3: write the directory of a large DAG. B4: read its status file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.harness import Measured, Sample, alternate, timed
from benchmarks.run import Run
from condor.dagfile import dag_entries, write_dag
from condor.layout import Asset, DagLayout, GroupLayout, NodeLayout
from condor.statusfile import read_status

NODES = 100_000
NODES_PER_GROUP = 100
SMALL_GROUP = 11  # landing, 8 jobs, merge, cleanup: the group of a request without measurements
NODES_AROUND_JOBS = 3
WORKFLOW_ID = "0b8e5a3c-7a51-4d6a-9a3f-0d5f3c1e2b44"
SITES = ("T1_US_FNAL", "T2_CH_CERN")
MANIFEST_BYTES_PER_JOB = 300


def scratch() -> Path:
    """Create a directory on the disk that DAGs are submitted from.

    It is removed at the end of the run only: ext4 avoids freed inodes for a minute or more, and searching for
    others makes every new file many times slower.
    """
    return Path(mkdtemp(prefix="bench-", dir=os.environ.get("WMS2_SUBMIT_ROOT") or None))


def dag_layout(nodes: int, *, per_group: int) -> DagLayout:
    """Return the layout of a DAG with this number of nodes and manifests of about the usual size."""
    jobs = per_group - NODES_AROUND_JOBS
    manifest = b"{" + b" " * (jobs * MANIFEST_BYTES_PER_JOB) + b"}\n"
    groups = [
        GroupLayout(
            name=f"mg_{index:06d}",
            sites=SITES,
            nodes=[_node(index * jobs + number) for number in range(jobs)],
            manifest=manifest,
        )
        for index in range(nodes // per_group)
    ]
    assets = (Asset("run.sh", b"#!/bin/sh\n", executable=True), Asset("sandbox.tar.gz", b"\0" * 50_000))
    return DagLayout(request_name="benchmark", workflow_id=WORKFLOW_ID, groups=groups, assets=assets)


def _node(index: int) -> NodeLayout:
    return NodeLayout(f"proc_{index:06d}", memory_mb=2000, cpus=1, disk_kb=1_000_000, wall_minutes=480)


def write_large_dag(run: Run) -> Measured:
    """B3: write the directory of a large DAG, against writing the same bytes."""
    nodes = run.size(NODES, 2000)
    usual = _against_bare_write(dag_layout(nodes, per_group=NODES_PER_GROUP), scratch(), run.repeat)
    small = _against_bare_write(dag_layout(nodes // 5, per_group=SMALL_GROUP), scratch(), run.repeat)
    samples = dict(usual.samples) | {f"small groups, {who}": taken for who, taken in small.samples.items()}
    note = f"{NODES_PER_GROUP} nodes per group; {small.value:.3g}× at {SMALL_GROUP} per group"
    return Measured(usual.value, samples, note=note, spread=usual.spread)


def _against_bare_write(layout: DagLayout, root: Path, repeat: int) -> Measured:
    content = b"".join(entry.content or b"" for entry in dag_entries(layout))
    numbers = count()

    def write_bare() -> None:
        with (root / f"bare{next(numbers)}").open("wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())

    pairs = alternate(
        timed(lambda: write_dag(layout, root / f"dag{next(numbers)}"), before=os.sync),
        timed(write_bare, before=os.sync),
        repeat=repeat,
    )
    return Measured(value=pairs.ratio, samples=pairs.as_samples(), spread=pairs.spread)


def status_text(nodes: int, *, done: int) -> str:
    """Return a status file as DAGMan writes it; the first nodes are done, the others run."""
    return "".join(_records(nodes, done, int(time.time())))


def _records(nodes: int, done: int, now: int) -> Iterator[str]:
    counts = {
        "Timestamp": now, "DagStatus": 3, "NodesTotal": nodes, "NodesDone": done, "NodesPre": 0,
        "NodesQueued": nodes - done, "NodesPost": 0, "NodesReady": 0, "NodesUnready": 0, "NodesFutile": 0,
        "NodesFailed": 0, "JobProcsHeld": 0, "JobProcsIdle": 0,
    }  # fmt: skip
    yield '[\n  Type = "DagStatus";\n  DagFiles = {\n    "group.dag"\n  };\n'
    yield "".join(f"  {key} = {value};\n" for key, value in counts.items()) + "]\n"
    for number in range(nodes):
        state = '5; /* "STATUS_DONE" */' if number < done else '3; /* "STATUS_SUBMITTED" */'
        yield f'[\n  Type = "NodeStatus";\n  Node = "mg_{number:06d}";\n  NodeStatus = {state}\n'
        yield '  StatusDetails = "";\n  RetryCount = 0;\n  JobProcsQueued = 1;\n  JobProcsHeld = 0;\n]\n'
    yield f'[\n  Type = "StatusEnd";\n  EndTime = {now};\n  NextUpdate = {now + 15};\n]\n'


def read_large_status(run: Run) -> Measured:
    """B4: read the counts and the finished nodes, as a sweep does; for the moonshot, of an unchanged file."""
    nodes = run.size(NODES, 2000)
    path = scratch() / "workflow.dag.status"
    path.write_text(status_text(nodes, done=nodes // 2))
    os.sync()
    first = read_status(path)
    assert first is not None
    assert len(first.status.done) == nodes // 2

    def warm(work: Callable[[], object]) -> Sample:
        """Return a sample function of the work, timed right after the file was read, with warm caches."""
        return timed(work, before=path.read_bytes, clock=time.process_time)

    read = warm(path.read_bytes)
    whole = alternate(warm(lambda: read_status(path)), read, repeat=run.repeat)
    skip = warm(lambda: read_status(path, previous=first.stamp))
    unchanged = alternate(skip, read, repeat=run.repeat)
    every = alternate(warm(lambda: _every_node(path)), read, repeat=run.repeat)
    samples = whole.as_samples() | {f"unchanged, {who}": t for who, t in unchanged.as_samples().items()}
    samples |= {f"every node, {who}": t for who, t in every.as_samples().items()}
    note = f"{unchanged.ratio:.2g}× when the file has not changed, {every.ratio:.2g}× with every node's state"
    return Measured(whole.ratio, samples, note=note, hoped=unchanged.ratio, spread=whole.spread)


def _every_node(path: Path) -> int:
    reading = read_status(path)
    return len(dict(reading.status.nodes)) if reading else 0
