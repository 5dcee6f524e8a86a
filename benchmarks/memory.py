"""B16: growth of the memory of a process that plans, renders and watches a million nodes.

`python -m benchmarks.memory REQUESTS NODES` does the work in a separate process and prints the growth of its
peak memory in MB.
"""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.dagfiles import NODES_AROUND_JOBS, status_text
from benchmarks.harness import Measured, repeated
from benchmarks.planning import ESTIMATE, ledger_rows, plan_spec
from benchmarks.run import Run
from condor.dagfile import Digest, dag_entries
from condor.layout import DagmanSettings, Retries, Throttles
from condor.statusfile import read_status
from condor.types import FileStamp
from dags_app.planning.coverage import read_plan
from dags_app.planning.layout import LayoutSpec, build_layout
from dags_app.planning.plan import build_plan
from dags_app.states import SplittingAlgo

NODES = 10_000
SINGLE_NODES = 200_000
JOBS_PER_GROUP = 8
REPEAT = 1  # the same work has the same peak within some pages


def memory_of_a_million(run: Run) -> Measured:
    """B16: plan a hundred requests of 10k nodes one after another, as a worker does, then watch all."""
    nodes, requests = run.size(NODES, 1100), run.size(100, 2)
    many = repeated(lambda: _grown(requests, nodes), repeat=REPEAT)
    single = run.size(SINGLE_NODES, 11_000)
    one = _grown(1, single)
    note = (
        f"{requests} requests of {nodes:,} nodes; a single one of {single:,} nodes grows it by {one:,.0f} MB"
    )
    return Measured(max(many), {"many": many, "single": (one,)}, note=note)


def _grown(requests: int, nodes: int) -> float:
    command = [sys.executable, "-m", "benchmarks.memory", str(requests), str(nodes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def peak_growth_mb(requests: int, nodes: int) -> float:
    """Plan, render and watch these nodes in this process. Return the growth of its peak memory in MB."""
    jobs = nodes * JOBS_PER_GROUP // (JOBS_PER_GROUP + NODES_AROUND_JOBS)
    params: dict[str, Any] = {"files_per_job": 1}
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak memory of the start
    before = _memory_kb("VmRSS")
    for _ in range(requests):
        plan_and_render(jobs, params)
    with TemporaryDirectory() as directory:
        stamps = [watch(Path(directory) / f"{number}.status", jobs) for number in range(requests)]
    assert len(stamps) == requests
    return (_memory_kb("VmHWM") - before) / 1024


def plan_and_render(jobs: int, params: dict[str, Any]) -> None:
    """Hold in memory what `plan_round` does: files, plan and layout, and each file while it is written."""
    spec = plan_spec(SplittingAlgo.FILE_BASED, params)
    plan = build_plan(spec=spec, files=ledger_rows(jobs), estimate=ESTIMATE)
    layout = LayoutSpec(
        round_number=0,
        output_datasets=["/Muons/Run2031A-First-v1/AOD"],
        merged_lfn_base="/store/data",
        unmerged_lfn_base="/store/unmerged",
        payload={},
        pilot=None,
        assets=(),
        job_files=(),
        throttles=Throttles(),
        retries=Retries(),
        dagman=DagmanSettings(),
        priority=0,
        memory_ceiling_per_core_mb=3000,
        wall_time_ceiling_minutes=2880,
        disk_ceiling_per_core_mb=20_000,
        held_grace_sec=60,
        max_transfer_output_mb=32,
    )
    digest = Digest()
    for entry in dag_entries(build_layout(plan=plan, spec=spec, layout=layout)):
        digest.add(entry)
    read_plan(plan, by_events=False)


def watch(path: Path, jobs: int) -> FileStamp:
    """Read a DAG as the monitor does, with what it keeps in memory."""
    groups = -(-jobs // JOBS_PER_GROUP)
    path.write_text(status_text(groups, done=groups // 2))
    reading = read_status(path)
    assert reading is not None
    deque(reading.status.nodes.items(), maxlen=0)
    return reading.stamp


def _memory_kb(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise AssertionError(f"/proc/self/status has no {name}")


if __name__ == "__main__":
    print(peak_growth_mb(int(sys.argv[1]), int(sys.argv[2])))
