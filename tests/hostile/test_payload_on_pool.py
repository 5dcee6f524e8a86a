"""A hostile payload as a real job: HTCondor transfers what the wrapper wrote, and the group is done."""

from __future__ import annotations

import fcntl
import json
import sys
from pathlib import Path

import pytest

from condor.layout import GroupLayout, NodeLayout
from tests.hostile.test_payload_tree import FORGE, HEAD, MAX_STREAM_BYTES, WAITS
from tests.pool_dags import Bench, manifest, sandbox_assets

SPOIL = """
def work():
    plan = task["generate"]
    with open(out, "w") as target:
        print('{"format": "wms2-events", "version": 1}', file=target)
        for n in range(plan["first_event"], plan["last_event"] + 1):
            print(1, plan["first_lumi"], n, "ab", file=target)

detach(LOCK, forge)
os.mkfifo(back + "/pipe")
os.symlink("/etc", back + "/etc")
os.unlink(scratch + "/_condor_stdout")
os.mkfifo(scratch + "/_condor_stdout")
for _ in range(200):
    os.write(2, b"x" * 65536)
work()
"""


def submit(bench: Bench, root: Path, program: str, namespace: str) -> tuple[str, Path]:
    """Submit a group with one job of this program; return its batch name and its directory."""
    (root / "lock").touch()
    text = f"{HEAD}\nLOCK = {str(root / 'lock')!r}\n{FORGE}{program}"
    node = NodeLayout("proc_000000", memory_mb=256, cpus=1, disk_kb=100_000, wall_minutes=10)
    group = GroupLayout(
        name="mg_000000",
        sites=bench.sites,
        nodes=[node],
        manifest=manifest(root / "storage", 1),
    )
    config = {"command": [sys.executable, "-S", "-c", text], "merge": {"tool": "events"}}
    payload = json.dumps(config).encode()
    assets = sandbox_assets(root / "assets")
    written = bench.write(bench.layout(groups=[group], assets=assets, payload=payload))
    submit_file = written.dag_file.parent / "proc.sub"
    switch = f'environment = "WMS2_PAYLOAD_NAMESPACE={namespace} '
    submit_file.write_text(submit_file.read_text().replace('environment = "', switch))
    return bench.submit(written), written.dag_file.parent / "mg_000000"


def no_process_is_left(lock: Path) -> bool:
    with open(lock) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.parametrize("namespace", ["1", "0"])
def test_a_hostile_job_ends_and_brings_back_two_reports(bench: Bench, tmp_path: Path, namespace: str) -> None:
    name, directory = submit(bench, tmp_path, SPOIL, namespace)
    ad = bench.finish(name, 300)

    assert ad.succeeded, (directory / "proc_000000.post.0.json").read_text()
    report = json.loads((directory / "reports" / "proc_000000.report.json").read_text())
    assert (report["exit_code"], report["events_read"]) == (0, 10)
    back = {path.name for path in (directory / "reports").iterdir()}
    assert {one for one in back if not one.startswith(("merge.", "cleanup."))} == {
        "proc_000000.report.json",
        "proc_000000.fjr.xml",
    }
    for stream in ("proc_000000.out", "proc_000000.err"):
        assert (directory / stream).stat().st_size < MAX_STREAM_BYTES
    assert no_process_is_left(tmp_path / "lock")


@pytest.mark.parametrize("namespace", ["1", "0"])
def test_a_removed_job_leaves_no_daemon(bench: Bench, tmp_path: Path, namespace: str) -> None:
    name, _ = submit(bench, tmp_path, WAITS, namespace)
    bench.wait((tmp_path / "lock.on").exists, 300)
    bench.schedd.remove_dag(name, reason="the test removes it", resumable=False)
    bench.wait(lambda: bench.gone(name), 300)

    bench.wait(lambda: no_process_is_left(tmp_path / "lock"), 120)
