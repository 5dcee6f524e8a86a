"""The kind `root-demo`: real ROOT files through processing, merge and cleanup."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uproot

from rootfiles.generate import Generation, generate
from rootfiles.skim import Selection
from sandbox.filefacts import checksum
from sandbox.manifest import read_group_manifest
from tests.job_world import DATASET, NODE, RUN, SECOND, SITE

if TYPE_CHECKING:
    from tests.job_world import World

MERGED = "/store/data/toy/00000000000000000000000000000000.root"


@pytest.fixture
def world(world: World) -> World:
    world.forked = True
    world.payload = {"kind": "root-demo"}
    return world


def add_root_file(world: World, name: str, events: int, first: int = 1) -> dict[str, Any]:
    """Put a ROOT file with ten events per lumi on storage; return the window that covers all of it."""
    path = world.storage / f"store/data/{name}.root"
    path.parent.mkdir(parents=True, exist_ok=True)
    generate(Generation(RUN, first, first + events - 1, 1, 10, 1), [str(path)], Selection())
    return described(world, name, events)


def described(world: World, name: str, events: int) -> dict[str, Any]:
    """Return a file as a catalogue describes it, regardless of its content."""
    size, adler32 = checksum(world.storage / f"store/data/{name}.root")
    facts = {"lfn": f"/store/data/{name}.root", "size_bytes": size, "adler32": adler32, "events": events}
    return {**facts, "first_event": 0, "last_event": events - 1}


def generate_job(world: World, node: str, first: int, last: int) -> None:
    plan = {"first_event": first, "last_event": last, "first_lumi": 1, "events_per_lumi": 10, "run": 1}
    plan["numbering_from"] = 1
    world.jobs[node] = {"files": [], "generate": plan, "mask": None, "events": last - first + 1}


def run_group(world: World) -> Any:
    world.plan()
    for node in [*world.jobs, "merge", "cleanup"]:
        status = world.run(node)
        assert world.post(node, status) == 0, world.report(node)["error"]
    return read_group_manifest(world.group / "merge_output.json")


def numbers(world: World, lfn: str) -> list[int]:
    with uproot.open({f"{world.storage}{lfn}": "Events"}) as tree:
        return [int(number) for number in tree["event"].array(library="np")]


def test_input_files_become_one_root_file_with_every_event_once(world: World) -> None:
    world.datasets = (DATASET, SECOND)
    first, second = add_root_file(world, "a", 40), add_root_file(world, "b", 60, first=41)
    world.add_job("proc_000000", [first])
    world.add_job("proc_000001", [{**second, "last_event": 24}])
    world.add_job("proc_000002", [{**second, "first_event": 25}])
    manifest = run_group(world)

    assert manifest.events_read == manifest.events_written == 100
    for output in manifest.outputs:
        assert numbers(world, output.lfn) == list(range(1, 101))
        assert output.lumi_events == {RUN: [[1, 10, 10]]}
        assert (output.size_bytes, output.adler32) == checksum(Path(f"{world.storage}{output.lfn}"))
    assert not list(world.storage.rglob("proc_*.root"))


def test_generated_events_are_filtered_and_their_lumis_stay(world: World) -> None:
    world.payload["root_demo"] = {"filter_efficiency": 0.2}
    generate_job(world, "proc_000000", 1, 40)
    generate_job(world, "proc_000001", 41, 80)
    manifest = run_group(world)

    kept = numbers(world, MERGED)
    assert kept == sorted(set(kept))
    assert 0 < len(kept) < 40
    assert (manifest.events_read, manifest.events_written) == (80, len(kept))
    assert manifest.outputs[0].lumis == {1: [[1, 8]]}, "a lumi without events was processed all the same"


def test_a_pilot_measures_windows_and_joins_them(world: World) -> None:
    world.pilot = {"initial_events": 20, "tolerance": 0, "time_budget_sec": 600, "target_job_sec": 60}
    generate_job(world, NODE, 1, 100)
    world.plan()
    world.run(NODE)
    report = world.report(NODE)

    assert (report["exit_code"], report["error"]) == (0, "")
    assert [one["events"] for one in report["pilot"]["iterations"]] == [20, 40, 40]
    assert numbers(world, report["outputs"][0]["lfn"]) == list(range(1, 101))


def test_a_mask_selects_lumis(world: World) -> None:
    world.add_job(NODE, [add_root_file(world, "a", 50)], mask={str(RUN): [[2, 3]]})
    world.plan()
    world.run(NODE)
    report = world.report(NODE)

    assert report["events_read"] == 20
    assert report["inputs"] == [{"lfn": "/store/data/a.root", "events": 20}]
    assert numbers(world, report["outputs"][0]["lfn"]) == list(range(11, 31))


def damage(world: World, how: str) -> dict[str, Any]:
    """Damage the content of an input whose size and checksum agree with the catalogue."""
    add_root_file(world, "a", 50)
    path = world.storage / "store/data/a.root"
    content = path.read_bytes()
    if how == "events":
        return described(world, "a", 60)
    path.write_bytes({"empty": b"", "truncated": content[:-1000], "not-root": b"text" * 100}[how])
    return described(world, "a", 50)


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ("empty", 8022, "empty"),
        ("truncated", 8022, "truncated"),
        ("not-root", 8022, "not-root"),
        ("events", 8021, "holds 50 events where 60 were planned"),
    ],
)
def test_a_bad_input_is_classified_and_named(world: World, how: str, code: int, message: str) -> None:
    world.add_job(NODE, [damage(world, how)])
    world.plan()
    world.run(NODE)
    report = world.report(NODE)

    assert (report["exit_code"], report["bad_inputs"]) == (code, ["/store/data/a.root"])
    assert message in report["error"]
    assert report["outputs"] == []


def test_a_merge_refuses_a_file_that_holds_other_events_than_claimed(world: World) -> None:
    generate_job(world, NODE, 1, 40)
    world.plan()
    world.run(NODE)
    output = world.report(NODE)["outputs"][0]
    path = Path(f"{world.storage}{output['lfn']}")
    generate(Generation(1, 1, 39, 1, 10, 1), [str(path)], Selection())
    size, adler32 = checksum(path)
    report = world.reports / f"{NODE}.report.json"
    text = report.read_text().replace(output["adler32"], adler32)
    report.write_text(text.replace(f'"size_bytes":{output["size_bytes"]}', f'"size_bytes":{size}'))

    world.run("merge")
    merged = world.report("merge")
    assert merged["exit_code"] == 99310
    assert f"{NODE}: events of {output['lfn']}: claimed 40, the file has 39" in merged["error"]


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"engine": "geant"}, "engine"),
        ({"detail": "most"}, "detail"),
        ({"filter_efficiency": 2}, "filter_efficiency"),
        ({"mass_window_gev": [100, 80]}, "mass_window_gev"),
        ({"colour": "red"}, "colour"),
        ("fast", "root_demo"),
    ],
)
def test_a_configuration_that_is_not_understood_is_refused_by_field(
    world: World, config: Any, field: str
) -> None:
    world.payload["root_demo"] = config
    generate_job(world, NODE, 1, 10)
    world.plan()
    world.run(NODE)

    report = world.report(NODE)
    assert report["exit_code"] == 7002
    assert field in report["error"]


def test_a_node_without_uproot_is_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.processes = True
    generate_job(world, NODE, 1, 10)
    world.plan()
    bare = world.root / "python3"
    bare.write_text('#!/bin/sh\nexec /usr/bin/python3 -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(
        type(world),
        "environment",
        lambda self: {
            "PATH": f"{world.root}:/usr/bin:/bin",
            "WMS2_PYTHON": str(bare),
            "WMS2_ROOT_PYTHON": "",
        },
    )
    world.run(NODE, SITE)

    report = world.report(NODE)
    assert report["exit_code"] == 50110
    assert "WMS2_ROOT_PYTHON" in report["error"]
