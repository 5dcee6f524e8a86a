"""A hanging job removed from the real queue fails its node, and DAGMan tries the node again."""

from __future__ import annotations

from pathlib import Path

from condor.layout import Asset, Retries
from condor.types import RunningJob
from sandbox.classify import HANG_MARK
from sandbox.postrecord import last_records, read_record, record_name
from tests.pool_dags import Bench, sandbox_assets

IDLE, BUSY = "proc_000000", "proc_000001"
HANGS_ONCE = f"""#!/bin/sh
[ "$WMS2_ATTEMPT" = 0 ] || exit 3
[ "$2" = {IDLE} ] && exec sleep 300
while :; do :; done
"""


def test_a_removed_job_is_classified_as_hanging_and_its_node_runs_again(bench: Bench, tmp_path: Path) -> None:
    assets = [asset for asset in sandbox_assets(tmp_path / "sandbox") if asset.path != "run.sh"]
    run = Asset("run.sh", HANGS_ONCE.encode(), executable=True)
    retries = Retries(landing=1, processing=1, merge=0, cleanup=0, cooloff_sec=0)
    written = bench.write(bench.layout(assets=[run, *assets], retries=retries))
    name = bench.submit(written)
    jobs: dict[str, RunningJob] = {}

    def differ() -> bool:
        jobs.update((job.node, job) for job in bench.schedd.running_jobs([name], longer_than_sec=0))
        return set(jobs) == {IDLE, BUSY} and jobs[BUSY].cpu_sec > jobs[IDLE].cpu_sec + 1

    bench.wait(differ)
    job = jobs[IDLE]
    assert (job.batch_name, job.group, job.site in bench.sites) == (name, "mg_000000", True)
    ids = [one.cluster_id for one in jobs.values()]
    assert bench.schedd.remove_jobs(name, ids, reason=f"{HANG_MARK}: a test") == 2
    assert not bench.finish(name).succeeded

    group = written.dag_file.parent / "mg_000000"
    first = read_record(group / record_name(IDLE, 0))
    assert (first.exit_code, first.category, first.retryable) == (50665, "infrastructure", True)
    assert HANG_MARK in first.error_message
    assert (last_records(group)[IDLE].attempt, last_records(group)[IDLE].exit_code) == (1, 99303)
