"""A processing node: exactly the planned work, and a report in every case."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox import processing
from sandbox.failure import process_exit
from sandbox.fjr import parse_fjr
from sandbox.report import read_report

if TYPE_CHECKING:
    from tests.job_world import World

NODE = "proc_000000"
UNMERGED = f"/store/unmerged/toy/6f1c2f6e-2c39-4f6e-9f0f-0123456789ab/mg_000000_r0/{NODE}.root"


def run(world: World, files: list[dict[str, Any]] | None = None, **toy: Any) -> dict[str, Any]:
    """Plan one job, run it, return its report."""
    if files is not None:
        world.add_job(NODE, files)
    if toy:
        world.payload = {"toy": toy}
    world.plan()
    status = world.run(NODE)
    report = world.report(NODE)
    assert status == process_exit(report["exit_code"])
    return report


def test_windows_and_mask_select_exactly_the_planned_events(world: World) -> None:
    file = world.add_file("a", 50)
    world.add_job(NODE, [{**file, "first_event": 5, "last_event": 44}], mask={"316877": [[1, 2], [5, 9]]})
    report = run(world)

    # lumis hold 10 events each: 1–2 are events 1–20, 5–9 are events 41–90; the window is events 6–45.
    assert [event.event for event in world.events_at(UNMERGED)] == [*range(6, 21), *range(41, 46)]
    assert report["events_read"] == report["events_written"] == 20
    assert report["inputs"] == [{"lfn": "/store/data/a.root", "events": 20}]
    assert report["outputs"][0]["lumis"] == {"316877": [[1, 2], [5, 5]]}


def test_monte_carlo_numbers_events_and_lumis_as_planned(world: World) -> None:
    plan = {"first_event": 101, "last_event": 225, "first_lumi": 7, "events_per_lumi": 50, "run": 1}
    world.jobs[NODE] = {"files": [], "generate": plan, "mask": None, "events": 125}
    report = run(world)

    events = world.events_at(UNMERGED)
    assert [event.event for event in events] == list(range(101, 226))
    assert [event.lumi for event in events] == [7] * 50 + [8] * 50 + [9] * 25
    assert report["outputs"][0]["lumis"] == {"1": [[7, 9]]}
    assert report["inputs"] == []
    assert len({event.payload for event in events}) == 125


def test_the_knobs_have_their_configured_cost(world: World) -> None:
    report = run(
        world,
        [world.add_file("a", 20)],
        cpu_sec_per_event=0.005,
        memory_mb=64,
        output_kb_per_event=2,
    )

    assert report["cpu_time_sec"] >= 0.1
    assert report["peak_rss_mb"] >= 64
    assert all(len(event.payload) == 2048 for event in world.events_at(UNMERGED))


def test_a_missing_input_is_named(world: World) -> None:
    good, lost = world.add_file("good", 10), world.add_file("lost", 10)
    (world.storage / "store/data/lost.root").unlink()
    report = run(world, [good, lost])

    assert report["exit_code"] == 8020
    assert report["bad_inputs"] == ["/store/data/lost.root"]
    assert report["events_read"] == 10
    assert report["outputs"] == []
    assert not list(world.storage.rglob("unmerged"))
    fjr = parse_fjr(world.reports / f"{NODE}.fjr.xml")
    assert fjr.exit_code == 8020
    assert fjr.errors[0].type == "FileOpenError"
    assert fjr.skipped_files == ("/store/data/lost.root",)
    assert [one.lfn for one in fjr.input_files] == ["/store/data/good.root"]


@pytest.mark.parametrize(
    ("damage", "code", "message"),
    [
        (lambda data: data[:-9], 8022, "bytes where"),
        (lambda data: data.replace(b" 10 ", b" 11 "), 8022, "checksum"),
    ],
    ids=["truncated", "changed"],
)
def test_a_damaged_input_is_named(world: World, damage: Any, code: int, message: str) -> None:
    file = world.add_file("a", 10)
    path = world.storage / "store/data/a.root"
    path.write_bytes(damage(path.read_bytes()))
    report = run(world, [file])

    assert report["exit_code"] == code
    assert message in report["error"]
    assert report["bad_inputs"] == ["/store/data/a.root"]


def test_a_file_shorter_than_its_plan_is_not_passed_over(world: World) -> None:
    report = run(world, [{**world.add_file("a", 10), "events": 12, "last_event": 11}])

    assert report["exit_code"] == 8021
    assert "holds 10 events" in report["error"]


def test_a_missing_storage_blames_no_file(world: World) -> None:
    file = world.add_file("a", 10)
    world.storage.rename(world.storage.with_name("gone"))
    report = run(world, [file])

    assert report["exit_code"] == 60321
    assert report["bad_inputs"] == []


def test_a_failed_stage_out_is_reported_as_such(world: World) -> None:
    file = world.add_file("a", 10)
    (world.storage / "store/unmerged").write_text("a file where a directory belongs")
    report = run(world, [file])

    assert report["exit_code"] == 60307
    assert UNMERGED in report["error"]


@pytest.mark.parametrize(
    ("toy", "attempt", "code"),
    [
        ({"fail_exit_code": 8001}, 0, 8001),
        ({"fail_exit_code": 512}, 0, 512),
        ({"fail_exit_code": 8001, "fail_nodes": [NODE]}, 0, 8001),
        ({"fail_exit_code": 8001, "fail_nodes": ["proc_000009"]}, 0, 0),
        ({"fail_exit_code": 8001, "fail_sites": ["T1_US_FNAL"]}, 0, 0),
        ({"fail_exit_code": 8001, "fail_sites": ["T2_CH_CERN"]}, 0, 8001),
        ({"fail_exit_code": 8001, "fail_attempts": 2}, 1, 8001),
        ({"fail_exit_code": 8001, "fail_attempts": 2}, 2, 0),
        ({"filter_efficiency": 1.5}, 0, 7002),
        ({"fail_nodes": "proc_000000"}, 0, 7002),
    ],
)
def test_failures_come_where_the_knobs_say(
    world: World, toy: dict[str, Any], attempt: int, code: int
) -> None:
    world.attempt = attempt

    assert run(world, [world.add_file("a", 10)], **toy)["exit_code"] == code


def test_merge_fails_on_request_only_by_name(small_group: World) -> None:
    small_group.payload = {"toy": {"fail_exit_code": 60311, "fail_nodes": ["merge"]}}
    small_group.plan()
    for node in small_group.jobs:
        assert small_group.run(node) == 0

    assert small_group.run("merge") == 60311 % 256


def test_the_toy_stops_at_its_wall_time_limit(world: World) -> None:
    world.payload = {"toy": {"cpu_sec_per_event": 0.02}, "max_wall_time_sec": 0.05}

    assert run(world, [world.add_file("a", 1000)])["exit_code"] == 50664


@pytest.mark.parametrize(("content", "code"), [(None, 71104), ("{", 71105), ("{}", 71105)])
def test_an_unusable_plan_is_reported(world: World, content: str | None, code: int) -> None:
    world.reports.mkdir(parents=True)
    if content is not None:
        (world.group / "jobs.json").write_text(content)

    assert world.run(NODE) == code % 256
    assert world.report(NODE)["exit_code"] == code


def test_a_node_that_is_not_planned_is_reported(small_group: World) -> None:
    small_group.plan()
    small_group.run("proc_000077")

    assert small_group.report("proc_000077")["exit_code"] == 71105


@pytest.mark.parametrize(
    ("error", "code"),
    [(RuntimeError("bug"), 99109), (MemoryError(), 8004), (OSError(28, "No space left on device"), 8033)],
)
def test_any_exception_leaves_a_report(
    small_group: World, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(processing, "start_payload", broken)
    small_group.plan()

    assert small_group.run(NODE) == code % 256
    assert small_group.report(NODE)["exit_code"] == code


@pytest.mark.parametrize(("code", "status"), [(0, 0), (1, 1), (85, 85), (8021, 85), (512, 1), (99109, 37)])
def test_a_failure_never_becomes_exit_status_zero(code: int, status: int) -> None:
    assert process_exit(code) == status


def test_a_signal_leaves_a_report_and_no_litter_on_storage(world: World) -> None:
    world.payload = {"toy": {"cpu_sec_per_event": 0.05}}
    world.add_job(NODE, [world.add_file("a", 1000)])
    world.plan()
    place = world.scratch(NODE)
    job = subprocess.Popen(world.command(NODE), cwd=place, env=world.environment(), stderr=subprocess.PIPE)
    end = time.monotonic() + 120
    while not list(place.glob("work/.part0*")):
        assert job.poll() is None
        assert time.monotonic() < end, "the payload was not started"
        time.sleep(0.02)
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=120)
    world.bring_back(place)

    assert job.returncode == 143
    report = world.report(NODE)
    assert report["exit_code"] == 143
    assert "SIGTERM" in report["error"]
    assert [path.name for path in world.storage.rglob("*") if path.is_file()] == ["a.root"]


def test_without_python_the_shell_leaves_a_report(world: World, tmp_path: Path) -> None:
    world.reports.mkdir(parents=True)
    place = world.scratch(NODE)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("mkdir", "tar", "gzip", "date"):
        (tools / name).symlink_to(
            next(f"{d}/{name}" for d in ("/usr/bin", "/bin") if os.path.exists(f"{d}/{name}"))
        )
    done = subprocess.run(
        ["/bin/sh", "./run.sh", "processing", NODE, "T2_CH_CERN"],
        cwd=place,
        env={"PATH": str(tools), "WMS2_ATTEMPT": "2"},
        capture_output=True,
        check=False,
    )

    report = read_report(place / "back" / f"{NODE}.report.json")
    assert (done.returncode, report.exit_code, report.attempt) == (11005 % 256, 11005, 2)


@pytest.mark.parametrize("arguments", [[], ["processing"], ["processing", 'x"; echo', "T2_CH_CERN"]])
def test_a_bad_tarball_and_bad_arguments_fail_without_a_broken_report(
    world: World, arguments: list[str]
) -> None:
    world.reports.mkdir(parents=True)
    place = world.scratch(NODE)
    (place / "sandbox.tar.gz").write_bytes(b"not a tarball")
    done = subprocess.run(["./run.sh", *arguments], cwd=place, capture_output=True, check=False)

    assert done.returncode == 74
    assert b"cannot be unpacked" in done.stderr
    assert list((place / "back").iterdir()) == []


def test_a_bad_tarball_is_reported(world: World) -> None:
    world.reports.mkdir(parents=True)
    place = world.scratch(NODE)
    (place / "sandbox.tar.gz").write_bytes(b"not a tarball")
    subprocess.run(world.command(NODE), cwd=place, capture_output=True, check=False)

    document = json.loads((place / "back" / f"{NODE}.report.json").read_text())
    assert document["exit_code"] == 74
