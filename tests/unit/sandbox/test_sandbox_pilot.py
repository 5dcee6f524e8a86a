"""Pilot mode: convergence, recommendation, and every event of the job exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.manifest import Generate, InputFile, Job, PilotSettings
from sandbox.payloads import Window
from sandbox.pilot import MAX_EVENTS_PER_JOB, build_report, has_converged, run_pilot, take
from sandbox.report import Iteration

if TYPE_CHECKING:
    from tests.job_world import World

NODE = "proc_000000"


def iteration(events: int = 10, wall: float = 1.0, memory: int = 100, size: float = 2.0) -> Iteration:
    return Iteration(
        events=events, wall_time_sec=wall, memory_mb=memory, cpu_efficiency=0.9, output_size_per_event_kb=size
    )


@pytest.mark.parametrize(
    ("current", "answer"),
    [
        (iteration(events=20, wall=2.0), True),
        (iteration(events=20, wall=2.1, memory=105, size=2.1), True),
        (iteration(events=20, wall=2.5), False),
        (iteration(events=20, wall=1.5), False),
        (iteration(events=20, wall=2.0, memory=150), False),
        (iteration(events=20, wall=2.0, size=1.0), False),
    ],
)
def test_it_converges_when_time_memory_and_size_per_event_all_settle(
    current: Iteration, answer: bool
) -> None:
    assert has_converged(iteration(), current, 0.1) is answer


def test_nothing_twice_is_no_change() -> None:
    assert has_converged(iteration(wall=0, memory=0, size=0), iteration(wall=0, memory=0, size=0), 0.1)


def test_the_recommendation_rests_on_the_last_iteration_and_the_highest_memory() -> None:
    report = build_report([iteration(memory=200), iteration(events=20, wall=4.0)], 28800, converged=True)

    assert report is not None
    assert report.recommended.events_per_job == 144_000
    assert report.recommended.time_per_job_sec == pytest.approx(28800)
    assert report.recommended.memory_mb == 240
    assert report.recommended.output_size_per_event_kb == 2.0
    assert report.per_step[0].time_per_event == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("wall", "events"), [(0.0, MAX_EVENTS_PER_JOB), (1e-9, MAX_EVENTS_PER_JOB), (1e9, 1)]
)
def test_the_recommended_size_stays_in_bounds(wall: float, events: int) -> None:
    report = build_report([iteration(events=1, wall=wall)], 3600, converged=False)

    assert report is not None
    assert report.recommended.events_per_job == events


def test_the_report_has_the_number_of_threads() -> None:
    report = build_report([iteration()], 3600, converged=False, threads=4)

    assert report is not None
    assert report.per_step[0].threads == 4


def test_without_a_measurement_nothing_is_recommended() -> None:
    assert build_report([], 3600, converged=False) is None


def events_of(job: Job) -> list[tuple[str, int]]:
    """Return every planned event as (file, position)."""
    if job.generate is not None:
        return [("", n) for n in range(job.generate.first_event, job.generate.last_event + 1)]
    return [(file.lfn, n) for file in job.files for n in range(file.first_event, file.last_event + 1)]


WINDOWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), min_size=1, max_size=5)


@given(windows=WINDOWS, sizes=st.lists(st.integers(1, 9), max_size=6), generate=st.booleans())
def test_consecutive_windows_hold_every_event_and_every_file_once(
    windows: list[tuple[int, int]], sizes: list[int], generate: bool
) -> None:
    files = tuple(
        InputFile(f"/store/{n}.root", 1, "", first + count, first, first + count - 1)
        for n, (first, count) in enumerate(windows)
    )
    plan = Generate(11, 10 + sum(count + 1 for _, count in windows), 1, 5, 1, 11)
    job = Job(NODE, () if generate else files, plan if generate else None, None, 0)
    parts, offset = [], 0
    for size in [*sizes, 100]:
        if offset == 0 or offset < job.window_events:
            parts.append(take(job, offset, size))
        offset += size

    assert [event for part in parts for event in events_of(part)] == events_of(job)
    assert {file.lfn for part in parts for file in part.files} == {file.lfn for file in job.files}


def test_the_windows_double_until_the_budget_is_spent_then_comes_the_rest() -> None:
    asked: list[int] = []

    def run_window(job: Job, part: int) -> Window:
        assert part == len(asked)
        asked.append(job.window_events)
        return Window(events_read=job.window_events, lumis={}, parts=())

    job = Job(NODE, (), Generate(1, 100, 1, 10, 1, 1), None, 100)
    run_pilot(job, PilotSettings(20, 0.0, 600, 60), run_window)
    assert asked == [20, 40, 40]
    asked.clear()
    run_pilot(job, PilotSettings(5, 0.0, 600, 60), run_window)
    assert asked == [12, 24, 48, 16], "few windows: each starts the payload"
    asked.clear()
    _, report = run_pilot(job, PilotSettings(5, 0.0, 0, 60), run_window)
    assert asked == [100]
    assert report is None


def test_a_pilot_of_generated_events_numbers_lumis_like_any_job(world: World) -> None:
    plan = {"first_event": 101, "last_event": 140, "first_lumi": 7, "events_per_lumi": 10, "run": 1}
    world.jobs[NODE] = {"files": [], "generate": plan, "mask": None, "events": 40}
    world.plan()
    world.run(NODE)
    plain = world.report(NODE)
    world.pilot = {"initial_events": 7, "tolerance": 0, "time_budget_sec": 600, "target_job_sec": 100}
    world.plan()
    world.run(NODE)

    assert world.report(NODE)["outputs"] == plain["outputs"]
    assert plain["outputs"][0]["lumis"] == {"1": [[7, 10]]}


def test_a_real_pilot_measures_and_writes_what_any_job_writes(world: World) -> None:
    files = [world.add_file("a", 30), world.add_file("b", 0), world.add_file("c", 50, first=31)]
    world.payload = {"toy": {"cpu_sec_per_event": 0.002, "filter_efficiency": 0.7, "output_kb_per_event": 1}}
    world.add_job(NODE, files)
    world.plan()
    world.run(NODE)
    plain = world.report(NODE)
    world.pilot = {"initial_events": 10, "tolerance": 1, "time_budget_sec": 600, "target_job_sec": 100}
    world.plan()
    world.run(NODE)
    piloted = world.report(NODE)

    assert piloted["outputs"] == plain["outputs"]
    assert piloted["inputs"] == plain["inputs"]
    assert piloted["events_read"] == 80
    pilot: dict[str, Any] = piloted["pilot"]
    assert [one["events"] for one in pilot["iterations"]] == [10, 20]
    assert all(one["wall_time_sec"] / one["events"] >= 0.002 for one in pilot["iterations"])
    assert pilot["converged"] is True
    assert 1 <= pilot["recommended"]["events_per_job"] <= 50_000
    assert plain["pilot"] is None
