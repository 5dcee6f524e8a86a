"""Our DAG files and the real sandbox agree: real jobs, real POST scripts, one merged file."""

from __future__ import annotations

import json
from pathlib import Path

from condor.layout import Asset, GroupLayout, NodeLayout, Retries
from sandbox.postrecord import read_record
from tests.pool_dags import Bench, manifest, sandbox_assets


def test_a_job_that_returns_too_much_fails_for_good_and_not_against_its_site(
    bench: Bench, tmp_path: Path
) -> None:
    greedy = b"#!/bin/sh\nhead -c 3000000 /dev/zero >back/much\nexit 71\n"
    node = NodeLayout("proc_000000", memory_mb=256, cpus=1, disk_kb=10_000, wall_minutes=10)
    group = GroupLayout(
        name="mg_000000", sites=bench.sites, nodes=[node], manifest=manifest(tmp_path / "storage", 1)
    )
    assets = [one for one in sandbox_assets(tmp_path / "assets") if one.path != "run.sh"]
    assets.append(Asset("run.sh", greedy, executable=True))
    written = bench.write(bench.layout(groups=[group], assets=assets, max_transfer_output_mb=1))

    assert not bench.finish(bench.submit(written), 120).succeeded

    directory = written.dag_file.parent / "mg_000000"
    record = read_record(directory / "proc_000000.post.0.json")
    assert "Code 33 " in (directory / "group.dag.nodes.log").read_text()
    assert (record.exit_code, record.category, record.final) == (50668, "permanent", True)
    assert (record.source, record.site in bench.sites) == ("payload", True)


def test_generated_events_end_up_in_one_merged_file(bench: Bench, tmp_path: Path) -> None:
    fail_once = {"toy": {"fail_exit_code": 134, "fail_nodes": ["proc_000001"], "fail_attempts": 1}}
    storage = tmp_path / "storage"
    group = GroupLayout(
        name="mg_000000",
        sites=bench.sites,
        nodes=[
            NodeLayout(f"proc_{n:06d}", memory_mb=256, cpus=1, disk_kb=1024, wall_minutes=10) for n in (0, 1)
        ],
        manifest=manifest(storage, 2),
    )
    assets = sandbox_assets(tmp_path / "assets")
    payload = json.dumps(fail_once).encode()
    layout = bench.layout(groups=[group], assets=assets, retries=Retries(cooloff_sec=2), payload=payload)
    written = bench.write(layout)

    ad = bench.finish(bench.submit(written), 120)

    directory = written.dag_file.parent / "mg_000000"
    assert ad.succeeded, (directory / "group.dag.dagman.out").read_text()[-3000:]
    body = json.loads((directory / "merge_output.json").read_text())
    (output,) = body["outputs"]
    assert (body["jobs"], body["events_read"], output["events"]) == (2, 20, 20)
    merged = storage / body["site"] / output["lfn"].lstrip("/")
    assert merged.stat().st_size == output["size_bytes"]
    assert (directory / "proc_000001.post.0.json").exists()
