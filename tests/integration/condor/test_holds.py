"""HTCondor holds a job for its own reasons; the real POST script distinguishes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from condor.dagfile import WrittenDag
from condor.layout import Asset, Retries
from sandbox.postrecord import PostRecord, last_records
from tests.pool_dags import Bench, sandbox_assets

# Too much memory for the pool's policy, or too much time for the submit file's limit.
GREEDY = rb"""#!/bin/sh
case $2 in
    proc_000000) exec python3 -c 'import time; x = b"1" * (150 << 20); time.sleep(120)' ;;
    *) sleep 120 ;;
esac
"""
ONE_TRY = Retries(landing=1, processing=0, merge=0, cleanup=0, cooloff_sec=0)


def write(bench: Bench, tmp_path: Path) -> WrittenDag:
    assets = [asset for asset in sandbox_assets(tmp_path) if asset.path != "run.sh"]
    run = Asset("run.sh", GREEDY, executable=True)
    layout = bench.layout(assets=[run, *assets], retries=ONE_TRY, memory_ceiling_mb=1000)
    written = bench.write(layout)
    # A minute is the shortest limit of a layout; the mechanism is the same with seconds.
    submit = written.dag_file.parent / "proc.sub"
    submit.write_text(submit.read_text().replace("$(wall_minutes) * 60", "$(wall_minutes) * 6"))
    return written


@pytest.fixture
def records(bench: Bench, tmp_path: Path) -> dict[str, PostRecord]:
    """Return the records of a DAG whose jobs request too much, and of one whose jobs get no input."""
    greedy, starved = write(bench, tmp_path / "greedy"), write(bench, tmp_path / "starved")
    (starved.dag_file.parent / "mg_000000" / "jobs.json").unlink()
    names = [bench.submit(written) for written in (greedy, starved)]
    for name in names:
        assert not bench.finish(name).succeeded
    group = greedy.dag_file.parent / "mg_000000"
    raised = {line.split(" = ")[0] for line in (group / "raised.inc").read_text().splitlines()}
    assert raised == {"memory_proc_000000", "wall_time_proc_000001"}
    found = last_records(group)
    (other, *_) = last_records(starved.dag_file.parent / "mg_000000").values()
    return {**found, "starved": other}


def test_every_hold_ends_in_a_record_that_names_its_kind(records: dict[str, PostRecord]) -> None:
    result = {node: (record.exit_code, record.category) for node, record in records.items()}

    assert result["proc_000000"] == (50660, "permanent"), records["proc_000000"].hold_reason
    assert result["proc_000001"] == (50664, "permanent"), records["proc_000001"].hold_reason
    assert result["starved"] == (99400, "infrastructure"), records["starved"].hold_reason
    assert all(record.hold_reason and record.final for record in records.values())
    assert records["proc_000000"].action == "retries_exhausted"
    assert records["proc_000001"].action == "retries_exhausted"
    assert records["starved"].action == "abort_dag"
    assert "jobs.json" in records["starved"].proof
