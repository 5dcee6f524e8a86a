"""Injected faults apply where configured, and nowhere else."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from lab.toy.faults import draw
from lab.toy.knobs import WAYS
from tests.job_world import NODE, SITE

if TYPE_CHECKING:
    from tests.job_world import World

OTHER = "proc_000001"


@pytest.fixture
def pair(world: World) -> World:
    """Return two nodes that read one file each."""
    world.add_job(NODE, [world.add_file("a", 10)])
    world.add_job(OTHER, [world.add_file("b", 10, first=11)])
    return world


def inject(world: World, **knobs: Any) -> None:
    world.payload = {**world.payload, "toy": knobs}
    world.plan()


def test_a_corrupt_file_fails_its_reader_and_is_named(pair: World) -> None:
    inject(pair, fail_exit_code=8022, fail_files=["/store/data/b.root"], fail_sites=[SITE])

    assert pair.run(NODE) == 0
    pair.run(OTHER)
    report = pair.report(OTHER)
    assert (report["exit_code"], report["bad_inputs"]) == (8022, ["/store/data/b.root"])
    assert pair.post(OTHER, 8022 % 256) == 42
    assert pair.record(OTHER)["classification"]["bad_input_files"] == ["/store/data/b.root"]


def test_a_corrupt_replica_is_corrupt_at_its_site_only(pair: World) -> None:
    inject(pair, fail_exit_code=8022, fail_files=["/store/data/b.root"], fail_sites=["T1_US_FNAL"])

    assert pair.run(OTHER) == 0


def test_the_draw_depends_on_the_seed_and_on_nothing_else() -> None:
    nodes = [f"proc_{n:06d}" for n in range(2000)]
    struck = [{node for node in nodes if draw(seed, node, 0) < 0.3} for seed in (1, 1, 2)]

    assert struck[0] == struck[1] != struck[2]
    assert 0.25 < len(struck[0]) / len(nodes) < 0.35
    assert struck[0] != {node for node in nodes if draw(1, node, 1) < 0.3}


@pytest.mark.parametrize("probability", [0, 0.5, 1])
def test_the_share_given_fails(pair: World, probability: float) -> None:
    inject(pair, fail_exit_code=60307, fail_probability=probability, fail_seed=7)
    wanted = [draw(7, node, 0) < probability for node in (NODE, OTHER)]

    assert [pair.run(node) != 0 for node in (NODE, OTHER)] == wanted


def test_a_slow_start_only_costs_time(pair: World) -> None:
    inject(pair, fail_how="slow_start", fail_delay_sec=0.3)

    assert pair.run(NODE) == 0
    assert pair.report(NODE)["wall_time_sec"] >= 0.3


def test_a_hang_ends_at_the_wall_time_limit(pair: World) -> None:
    pair.payload = {"max_wall_time_sec": 0.3}
    inject(pair, fail_how="hang")
    pair.run(NODE)

    assert pair.report(NODE)["exit_code"] == 50664


def test_a_full_disk_is_the_nodes_fault_not_the_jobs(pair: World) -> None:
    inject(pair, fail_how="disk_full")
    status = pair.run(NODE)

    assert pair.report(NODE)["exit_code"] == 8033
    assert pair.post(NODE, status) == 1
    assert pair.record(NODE)["classification"]["category"] == "infrastructure"


@pytest.mark.parametrize("how", ["no_report", "truncated_report"])
@pytest.mark.parametrize("code", [0, 8021])
def test_a_job_without_a_whole_report_has_not_succeeded(pair: World, how: str, code: int) -> None:
    pair.processes = True
    inject(pair, fail_how=how, fail_exit_code=code)
    status = pair.run(NODE)

    assert status == code % 256
    assert pair.post(NODE, status) == 1
    assert pair.record(NODE)["job"]["exit_code"] == 99303


def test_a_job_to_be_held_leaves_nothing_to_transfer(pair: World) -> None:
    inject(pair, fail_how="held")
    place = pair.scratch(NODE)
    subprocess.run(pair.command(NODE), cwd=place, env=pair.environment(), check=True)

    assert not (place / "back").exists()


@pytest.mark.parametrize(("requested_mb", "code"), [("10", 50660), ("100000", 0), ("much", 0), ("", 0)])
def test_a_job_with_too_little_memory_fails_until_its_limit_suffices(
    pair: World, monkeypatch: pytest.MonkeyPatch, requested_mb: str, code: int
) -> None:
    monkeypatch.setenv("WMS2_MEMORY_MB", requested_mb)
    inject(pair, memory_mb=20)
    pair.run(NODE)

    assert pair.report(NODE)["exit_code"] == code
    assert pair.report(NODE)["peak_rss_mb"] > 20


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"fail_how": "explode"}, f"one of {', '.join(WAYS)}"),
        ({"fail_exit_cod": 1}, "a knob of the toy payload"),
        ({"fail_exit_code": 1.5}, "a whole number"),
        ({"fail_exit_code": True}, "a whole number"),
        ({"fail_exit_code": -1}, "from 0 to"),
        ({"fail_probability": 1.1}, "from 0 to 1"),
        ({"fail_probability": float("inf")}, "not"),
        ({"fail_files": "/store/data/a.root"}, "a list of names"),
        ({"memory_mb": "much"}, "a number"),
    ],
)
def test_a_knob_out_of_range_fails_every_job_with_a_sentence(
    pair: World, knobs: dict[str, Any], message: str
) -> None:
    inject(pair, **knobs)
    pair.run(NODE)

    assert pair.report(NODE)["exit_code"] == (71105 if float("inf") in knobs.values() else 7002)
    assert message in pair.report(NODE)["error"]
