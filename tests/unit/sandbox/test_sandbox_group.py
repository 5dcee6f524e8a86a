"""A whole group: processing → merge → cleanup → manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.toy.eventfile import facts
from lab.toy.payload import keeps
from sandbox.cleanup import build_metrics
from sandbox.manifest import GroupManifest, read_group_manifest
from sandbox.report import NodeReport

if TYPE_CHECKING:
    from tests.job_world import World

MERGED = "/store/data/toy/00000000000000000000000000000000.root"


def run_group(world: World) -> GroupManifest:
    world.plan()
    for node in [*world.jobs, "merge", "cleanup"]:
        assert world.post(node, world.run(node)) == 0, node
    return read_group_manifest(world.group / "merge_output.json")


@pytest.mark.parametrize("processes", [False, True], ids=["in-process", "by-executables"])
def test_every_event_is_in_the_merged_file_exactly_once(small_group: World, processes: bool) -> None:
    small_group.processes = processes
    manifest = run_group(small_group)

    assert [event.event for event in small_group.events_at(MERGED)] == list(range(1, 101))
    assert manifest.events_read == manifest.events_written == 100
    assert manifest.jobs == manifest.metrics.jobs == 3
    (output,) = manifest.outputs
    assert output.parents == ("/store/data/a.root", "/store/data/b.root")
    seen = facts(Path(f"{small_group.storage}{MERGED}"))
    assert (output.size_bytes, output.adler32, output.events, output.lumis) == (
        seen.size_bytes,
        seen.adler32,
        100,
        {316877: [[1, 10]]},
    )
    assert output.lumi_events == {316877: [[1, 10, 10]]}
    assert manifest.metrics.output_kb_per_event == pytest.approx(seen.size_bytes / 1024 / 100)
    walls = [small_group.report(node)["wall_time_sec"] for node in small_group.jobs]
    assert manifest.metrics.job_wall_p95_sec == max(walls), "of three jobs the slowest"


def test_only_unmerged_files_are_removed(small_group: World) -> None:
    run_group(small_group)

    left = sorted(path.name for path in small_group.storage.rglob("*.root"))
    assert left == ["00000000000000000000000000000000.root", "a.root", "b.root"]
    assert not list(small_group.storage.rglob("mg_000000_r0"))


def test_a_repeated_node_writes_the_same_bytes(small_group: World) -> None:
    small_group.payload = {"toy": {"filter_efficiency": 0.5}}
    small_group.plan()
    node = "proc_000001"
    small_group.run(node)
    first = small_group.report(node)
    small_group.attempt = 1
    small_group.run(node)
    second = small_group.report(node)

    assert first["outputs"] == second["outputs"]
    assert (first["attempt"], second["attempt"]) == (0, 1)
    assert len(list(small_group.storage.rglob(f"{node}*"))) == 1


def test_several_datasets_get_a_file_each_with_the_filtered_events(small_group: World) -> None:
    small_group.datasets = ("/Toy/Run2026-Test-v1/RECO", "/Toy/Run2026-Test-v1/AOD")
    small_group.payload = {"toy": {"filter_efficiency": 0.3}}
    manifest = run_group(small_group)

    events = [small_group.events_at(output.lfn) for output in manifest.outputs]
    numbers = [[event.event for event in one] for one in events]
    kept = [n for n in range(1, 101) if keeps(events[0][0]._replace(lumi=1 + (n - 1) // 10, event=n), 0.3)]
    assert numbers[0] == numbers[1] == kept
    assert manifest.events_written == len(kept)
    assert events[0][0].payload != events[1][0].payload
    assert manifest.outputs[0].lumis == {316877: [[1, 10]]}


def test_cleanup_repeated_gives_the_same_manifest_and_the_first_stays(small_group: World) -> None:
    first = run_group(small_group)
    inode = (small_group.group / "merge_output.json").stat().st_ino
    status = small_group.run("cleanup")

    assert small_group.post("cleanup", status, job_id="8.0") == 0
    part = read_group_manifest(small_group.reports / "merge_output.json.part")
    assert part == first
    assert (small_group.group / "merge_output.json").stat().st_ino == inode


def test_cleanup_deletes_nothing_when_the_merged_file_is_damaged(small_group: World) -> None:
    small_group.plan()
    for node in [*small_group.jobs, "merge"]:
        small_group.run(node)
    Path(f"{small_group.storage}{MERGED}").write_bytes(b"damaged")

    assert small_group.run("cleanup") != 0
    assert small_group.report("cleanup")["exit_code"] == 8022
    assert len(list(small_group.storage.rglob("proc_*.root"))) == 3
    assert not (small_group.reports / "merge_output.json.part").exists()


def test_cleanup_does_not_change_other_groups(small_group: World) -> None:
    small_group.plan()
    for node in [*small_group.jobs, "merge"]:
        small_group.run(node)
    own = next(small_group.storage.rglob("mg_000000_r0"))
    other = own.with_name("mg_000000_r1")
    other.mkdir()
    (other / "proc_000000.root").write_text("of another round")

    assert small_group.run("cleanup") == 0
    assert not own.exists()
    assert (other / "proc_000000.root").exists()


def test_merge_names_the_node_whose_report_is_missing(small_group: World) -> None:
    small_group.plan()
    for node in small_group.jobs:
        small_group.run(node)
    (small_group.reports / "proc_000001.report.json").unlink()

    assert small_group.run("merge") == 60450 % 256
    assert "proc_000001" in small_group.report("merge")["error"]


def test_merge_refuses_an_unmerged_file_that_changed(small_group: World) -> None:
    small_group.plan()
    for node in small_group.jobs:
        small_group.run(node)
    lost = small_group.report("proc_000002")["outputs"][0]["lfn"]
    path = Path(f"{small_group.storage}{lost}")
    path.write_bytes(path.read_bytes().replace(b" 99 ", b" 98 "))

    small_group.run("merge")
    report = small_group.report("merge")
    assert report["exit_code"] == 99310
    assert lost in report["error"]
    assert report["outputs"] == []


def test_merge_refuses_reports_of_another_site(small_group: World) -> None:
    small_group.plan()
    for node in small_group.jobs:
        small_group.run(node)
    path = small_group.reports / "proc_000000.report.json"
    path.write_text(json.dumps({**small_group.report("proc_000000"), "site": "T1_US_FNAL"}))

    assert small_group.run("merge") != 0
    assert "proc_000000 ran at T1_US_FNAL" in small_group.report("merge")["error"]


def test_an_empty_file_and_a_filter_that_passes_nothing_still_give_a_group(world: World) -> None:
    world.add_job("proc_000000", [world.add_file("empty", 0)])
    world.add_job("proc_000001", [world.add_file("full", 20)])
    world.payload = {"toy": {"filter_efficiency": 0}}
    manifest = run_group(world)

    assert (manifest.events_read, manifest.events_written) == (20, 0)
    assert manifest.outputs[0].lumis == {316877: [[1, 2]]}
    assert world.events_at(MERGED) == []


@pytest.mark.parametrize(("jobs", "rank"), [(1, 1), (19, 19), (20, 19), (39, 38), (40, 38), (100, 95)])
def test_the_95th_percentile_of_run_times_is_that_of_the_nearest_rank(jobs: int, rank: int) -> None:
    reports = [
        NodeReport(f"proc_{n:06d}", "mg_000000", "processing", "", 0, 0, "", 0.0, float(n), 0.0, 1, 1, 1)
        for n in range(jobs, 0, -1)
    ]
    assert build_metrics(reports, ()).job_wall_p95_sec == rank


def test_a_manifest_of_an_older_sandbox_is_still_read(small_group: World) -> None:
    run_group(small_group)
    path = small_group.group / "merge_output.json"
    document = json.loads(path.read_text())
    del document["metrics"]["job_wall_p95_sec"]
    path.write_text(json.dumps(document))
    assert read_group_manifest(path).metrics.job_wall_p95_sec == 0
