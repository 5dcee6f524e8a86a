"""A DAG is aborted only for an error that must break every node, with the proof in the record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox import proof
from sandbox.postrecord import read_record
from tests.job_world import NODE

if TYPE_CHECKING:
    from tests.job_world import World

SITES = ("T1_US_FNAL", "T2_CH_CERN")


@pytest.fixture
def planned(world: World) -> World:
    world.add_job(NODE, [world.add_file("a", 10)])
    world.plan()
    return world


def judge(world: World, code: int) -> tuple[int, str]:
    """Return POST's exit code for a node with this exit code, and the proof in its record."""
    good = world.payload
    world.payload = {"toy": {"fail_exit_code": code}}
    world.plan()
    status = world.run(NODE)
    world.payload = good
    world.plan()
    answer = world.post(NODE, status)
    return answer, read_record(world.group / f"{NODE}.post.0.json").proof


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"toy": {"memory_mb": "much"}}, "memory_mb"),
        ({"command": "rm -rf /"}, "command"),
        ({"max_wall_time_sec": -1}, "max_wall_time_sec"),
    ],
)
def test_a_configuration_that_every_job_refuses_aborts(
    planned: World, payload: dict[str, object], message: str
) -> None:
    planned.payload = payload

    answer, shown = judge(planned, 7002)

    assert answer == 43
    assert "the same for every job" in shown
    assert message in shown


def test_the_same_code_from_a_good_configuration_stops_one_node(planned: World) -> None:
    assert judge(planned, 7002) == (42, "")


def test_a_damaged_manifest_on_the_submit_host_aborts(planned: World) -> None:
    planned.jobs = {}

    answer, shown = judge(planned, 71105)

    assert answer == 43
    assert "jobs.json" in shown


@pytest.mark.parametrize(
    ("damage", "message"),
    [("cut", "truncated"), ("noise", "broken"), ("gone", "is missing on the submit host")],
)
def test_a_sandbox_broken_at_its_source_aborts(planned: World, damage: str, message: str) -> None:
    path = planned.root / "sandbox.tar.gz"
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"noise" * 100)
    (planned.reports / f"{NODE}.report.json").write_text(broken_report())
    answer = planned.post(NODE, 74)

    record = read_record(planned.group / f"{NODE}.post.0.json")
    assert answer == 43
    assert message in record.proof
    assert record.action == "abort_dag"
    assert record.proof in record.reason


def test_a_sandbox_that_arrived_broken_is_sent_again(planned: World) -> None:
    (planned.reports / f"{NODE}.report.json").write_text(broken_report())

    assert planned.post(NODE, 74) == 1


def broken_report() -> str:
    numbers = dict.fromkeys(
        ("started_at", "wall_time_sec", "cpu_time_sec", "peak_rss_mb", "events_read", "events_written"), 0
    )
    result = {"schema": 1, "node": NODE, "group": "", "role": "processing", "site": "", "attempt": 0}
    rest = {"exit_code": 74, "error": "cannot be unpacked", "inputs": [], "outputs": [], "pilot": None}
    return json.dumps({**result, **rest, **numbers})


def leave_group(root: Path, index: int, *, code: int = 0, site: str = SITES[0], ended: bool = True) -> Path:
    """Return a group whose only node failed with `code` at the site, or still runs there (0)."""
    group = root / f"mg_{index:06d}"
    group.mkdir()
    (group / "elected_site.inc").write_text(f"elected_site = {site}\n")
    if not code:
        return group
    node = f"proc_{index:06d}"
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
            "category": "data",
            "retryable": False,
            "action": "none",
            "reason": "",
            "bad_input_files": [f"/store/data/f{index}.root"],
        },
        "log_tail": "",
    }
    (group / f"{node}.post.0.json").write_text(json.dumps(document))
    if ended:
        (group / "group.dag.rescue001").touch()
    return group


def found_proof(root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the proof of the first group's node, which could not open a file at the first site."""
    here = root / "mg_000000"
    here.mkdir(exist_ok=True)
    monkeypatch.chdir(here)
    return proof.find_proof(8020, site=SITES[0], bad_inputs=["/store/data/f0.root"])


@pytest.mark.parametrize(
    ("failures", "gone"),
    [
        ([(8020, SITES[0]), (8020, SITES[1])], True),
        ([(8020, SITES[0]), (8028, SITES[1])], True),
        ([(8020, SITES[0]), (8020, SITES[0])], False),
        ([(8020, SITES[1])], False),
        ([(8020, SITES[0]), (8022, SITES[1])], False),
    ],
    ids=["three files, two sites", "other codes", "one site", "two files", "corrupt"],
)
def test_a_dataset_is_lost_when_no_job_at_any_site_could_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: list[tuple[int, str]], gone: bool
) -> None:
    for index, (code, site) in enumerate(failures, start=1):
        leave_group(tmp_path, index, code=code, site=site)

    shown = found_proof(tmp_path, monkeypatch)

    assert ("/store/data/f0.root" in shown) is gone
    assert bool(shown) is gone


def test_a_dataset_is_not_lost_while_most_of_the_dag_has_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sites with broken storage fail in seconds; the others run for hours."""
    for index, site in enumerate(SITES, start=1):
        leave_group(tmp_path, index, code=8020, site=site)
    for index in range(3, 8):
        leave_group(tmp_path, index, site=SITES[1])

    assert found_proof(tmp_path, monkeypatch) == ""


def test_a_dataset_is_not_lost_until_a_job_of_every_site_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(1, 9):
        leave_group(tmp_path, index, code=8020, site=SITES[index % 2])
    assert found_proof(tmp_path, monkeypatch)

    leave_group(tmp_path, 9, site="T2_US_Purdue")
    assert found_proof(tmp_path, monkeypatch) == ""


def test_groups_that_were_only_stopped_prove_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for index, site in enumerate(SITES, start=1):
        leave_group(tmp_path, index, code=8020, site=site, ended=False)
    for index in range(3, 8):
        (leave_group(tmp_path, index, site=SITES[1]) / "group.dag.rescue001").touch()

    assert found_proof(tmp_path, monkeypatch) == ""


@pytest.mark.parametrize(("code", "gone"), [(0, False), (8001, False), (60307, True), (8020, True)])
def test_one_node_that_ended_otherwise_anywhere_is_enough(planned: World, code: int, gone: bool) -> None:
    """This holds at any distance in the DAG: here between the first and the last group."""
    if code:
        judge(planned, code)
    else:
        assert planned.post(NODE, planned.run(NODE)) == 0
    for index in range(1, 200):
        leave_group(planned.root, index, code=8020, site=SITES[index % 2])
    planned.monkeypatch.chdir(planned.root / "mg_000199")

    shown = proof.find_proof(8020, site=SITES[1], bad_inputs=["/store/data/f199.root"])

    assert bool(shown) is gone
