"""A DAG is aborted only for what must break every node, and the record says what shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox import proof
from sandbox.postrecord import read_record
from tests.unit.sandbox.conftest import NODE

if TYPE_CHECKING:
    from tests.unit.sandbox.conftest import World

SITES = ("T1_US_FNAL", "T2_CH_CERN")


@pytest.fixture
def planned(world: World) -> World:
    world.add_job(NODE, [world.add_file("a", 10)])
    world.plan()
    return world


def judge(world: World, code: int) -> tuple[int, str]:
    """POST's answer to a node whose report says `code`, and the proof in its record."""
    good = world.payload
    world.payload = {"toy": {"fail_exit_code": code}}
    world.plan()
    status = world.run(NODE)
    world.payload = good
    (world.group / "jobs.json").write_text(json.dumps(world.document()))
    answer = world.post(NODE, status)
    return answer, read_record(world.group / f"{NODE}.post.0.json").proof


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"toy": {"memory_mb": "much"}}, "memory_mb"),
        ({"command": "rm -rf /"}, "command"),
        ({"max_wall_time_sec": -1}, "max_wall_time_sec"),
    ],
)
def test_a_configuration_that_every_job_refuses_aborts(
    planned: World, payload: dict[str, object], told: str
) -> None:
    planned.payload = payload

    answer, shown = judge(planned, 7002)

    assert answer == 43
    assert "the same for every job" in shown
    assert told in shown


def test_the_same_code_from_a_good_configuration_stops_one_node(planned: World) -> None:
    assert judge(planned, 7002) == (42, "")


def test_a_damaged_manifest_on_the_submit_host_aborts(planned: World) -> None:
    planned.jobs = {}

    answer, shown = judge(planned, 71105)

    assert answer == 43
    assert "jobs.json" in shown


@pytest.mark.parametrize(
    ("damage", "told"),
    [("cut", "cut off"), ("noise", "broken"), ("gone", "is not on the submit host")],
)
def test_a_sandbox_broken_at_its_source_aborts(planned: World, damage: str, told: str) -> None:
    path = planned.root / "sandbox.tar.gz"
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"noise" * 100)
    (planned.reports / f"{NODE}.report.json").write_text(broken_report())
    answer = planned.post(NODE, 74)

    record = read_record(planned.group / f"{NODE}.post.0.json")
    assert answer == 43
    assert told in record.proof
    assert record.action == "abort_dag"
    assert record.proof in record.reason


def test_a_sandbox_that_arrived_broken_is_sent_again(planned: World) -> None:
    (planned.reports / f"{NODE}.report.json").write_text(broken_report())

    assert planned.post(NODE, 74) == 1


def broken_report() -> str:
    numbers = dict.fromkeys(
        ("started_at", "wall_time_sec", "cpu_time_sec", "peak_rss_mb", "events_read", "events_written"), 0
    )
    told = {"schema": 1, "node": NODE, "group": "", "role": "processing", "site": "", "attempt": 0}
    rest = {"exit_code": 74, "error": "cannot be unpacked", "inputs": [], "outputs": [], "pilot": None}
    return json.dumps({**told, **rest, **numbers})


def leave_record(root: Path, index: int, *, code: int, site: str, category: str = "data") -> None:
    """What POST left about the only node of a group."""
    group = root / f"mg_{index:06d}"
    group.mkdir(exist_ok=True)
    node = f"proc_{index:06d}"
    blamed = [] if category == "success" else [f"/store/data/f{index}.root"]
    document = {
        "schema": 1,
        "node_name": node,
        "timestamp": "2026-11-16T00:00:00Z",
        "attempt": 0,
        "max_retries": 3,
        "final": True,
        "job": {"exit_code": code, "site": site, "wall_time_sec": 1, "memory_mb": 1},
        "cmssw": {"error_message": ""},
        "classification": {
            "category": category,
            "retryable": False,
            "action": "none",
            "reason": "",
            "bad_input_files": blamed,
        },
        "log_tail": "",
    }
    (group / f"{node}.post.0.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("records", "gone"),
    [
        ([(8020, SITES[0], "data"), (8020, SITES[1], "data")], True),
        ([(8020, SITES[0], "data"), (8028, SITES[1], "data")], True),
        ([(8020, SITES[0], "data"), (8020, SITES[0], "data")], False),
        ([(8020, SITES[1], "data")], False),
        ([(8020, SITES[0], "data"), (8022, SITES[1], "data")], False),
        ([(8020, SITES[0], "data"), (8020, SITES[1], "data"), (0, SITES[0], "success")], False),
    ],
    ids=["three files, two sites", "other codes", "one site", "two files", "corrupt", "one was read"],
)
def test_a_dataset_is_gone_when_nobody_anywhere_could_open_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: list[tuple[int, str, str]],
    gone: bool,
) -> None:
    for index, (code, site, category) in enumerate(records, start=1):
        leave_record(tmp_path, index, code=code, site=site, category=category)
    here = tmp_path / "mg_000000"
    here.mkdir()
    monkeypatch.chdir(here)

    shown = proof.find_proof(8020, site=SITES[0], bad_inputs=["/store/data/f0.root"])

    assert ("/store/data/f0.root" in shown) is gone
    assert bool(shown) is gone
