"""The kind `merge`: whole files pass through processing, merge and cleanup with every event unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox.manifest import read_group_manifest
from tests.job_world import DATASET, NODE, SECOND
from tests.jobs.root.test_rootdemo import MERGED, add_root_file, numbers, run_group

if TYPE_CHECKING:
    from tests.job_world import World


@pytest.fixture
def world(world: World) -> World:
    world.payload = {"kind": "merge", "merge": {"tool": "events"}}
    return world


def test_files_of_all_jobs_become_one_file_with_the_same_events(world: World) -> None:
    files = [world.add_file(name, 20, first=1 + 20 * n) for n, name in enumerate("abc")]
    world.add_job("proc_000000", files[:2])
    world.add_job("proc_000001", files[2:])
    world.plan()
    before = [event for file in files for event in world.events_at(file["lfn"])]

    for node in ("proc_000000", "proc_000001", "merge", "cleanup"):
        assert world.post(node, world.run(node)) == 0, world.report(node)["error"]

    (output,) = read_group_manifest(world.group / "merge_output.json").outputs
    assert world.events_at(output.lfn) == before
    assert output.parents == tuple(file["lfn"] for file in files)


def test_root_files_are_joined_by_the_default_tool(world: World) -> None:
    world.forked, world.payload = True, {"kind": "merge"}
    world.add_job("proc_000000", [add_root_file(world, "a", 30), add_root_file(world, "b", 20, first=31)])

    assert run_group(world).events_written == 50
    assert numbers(world, MERGED) == list(range(1, 51))


@pytest.mark.parametrize("change", [{"last_event": 5}, {"first_event": 1}])
def test_a_part_of_a_file_is_refused(world: World, change: dict[str, int]) -> None:
    world.add_job(NODE, [{**world.add_file("a", 10), **change}])
    world.plan()

    assert world.run(NODE) != 0
    assert "reads whole files" in world.report(NODE)["error"]


def test_several_output_datasets_are_refused(world: World) -> None:
    world.datasets = (DATASET, SECOND)
    world.add_job(NODE, [world.add_file("a", 10)])
    world.plan()

    assert world.run(NODE) != 0
    assert "one output dataset" in world.report(NODE)["error"]


def test_a_file_with_other_events_than_planned_is_blamed(world: World) -> None:
    file = world.add_file("a", 10)
    world.add_job(NODE, [{**file, "events": 11, "last_event": 10}])
    world.plan()

    assert world.run(NODE) != 0
    assert "holds 10 events where 11 were planned" in world.report(NODE)["error"]
    assert world.report(NODE)["bad_inputs"] == [file["lfn"]]
