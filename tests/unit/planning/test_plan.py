"""Properties of plans: all input once, no mixed locations, deterministic."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags_app.planning.merge_groups import group_jobs
from dags_app.planning.plan import build_generation_plan, build_plan
from dags_app.planning.splitters import UnsupportedSplitting, split
from dags_app.planning.types import Estimate, EventBudget, FileSpec, JobSpec, Plan
from dags_app.states import SplittingAlgo
from tests.unit.planning.factories import HINTS, file, spec

SITES = ["T1_US_FNAL", "T2_CH_CERN", "T2_DE_DESY"]
files = st.lists(
    st.builds(
        lambda number, events, sites: file(number, events=events, sites=tuple(sites)),
        st.integers(0, 10_000),
        st.integers(0, 500),
        st.sets(st.sampled_from(SITES), min_size=1),
    ),
    max_size=15,
    unique_by=lambda one: one.lfn,
)
algorithms = st.sampled_from([SplittingAlgo.FILE_BASED, SplittingAlgo.EVENT_BASED])


def events_read(plan: Plan) -> Counter[tuple[str, int]]:
    seen: Counter[tuple[str, int]] = Counter()
    for group in plan.groups:
        for job in group.jobs:
            for window in job.files:
                first = window.first_event or 0
                last = window.file.events - 1 if window.last_event is None else window.last_event
                seen.update((window.file.lfn, number) for number in range(first, last + 1))
    return seen


@given(files, algorithms, st.integers(1, 7), st.integers(1, 300))
def test_every_event_is_read_exactly_once(
    inputs: list[FileSpec], algo: SplittingAlgo, files_per_job: int, events_per_job: int
) -> None:
    plan = build_plan(
        spec=spec(algo, files_per_job=files_per_job, events_per_job=events_per_job),
        files=inputs,
        estimate=HINTS,
    )
    wanted = Counter((one.lfn, number) for one in inputs for number in range(one.events))
    assert events_read(plan) == wanted
    assert {w.file.lfn for g in plan.groups for j in g.jobs for w in j.files} == {one.lfn for one in inputs}


@given(files, algorithms)
def test_no_job_and_no_group_mixes_sites(inputs: list[FileSpec], algo: SplittingAlgo) -> None:
    plan = build_plan(spec=spec(algo, files_per_job=3, events_per_job=70), files=inputs, estimate=HINTS)
    for group in plan.groups:
        assert {job.sites for job in group.jobs} == {group.sites}
        for job in group.jobs:
            assert {window.file.sites for window in job.files} == {job.sites}


@given(files, algorithms, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    inputs: list[FileSpec], algo: SplittingAlgo, chance: random.Random
) -> None:
    shuffled = list(inputs)
    chance.shuffle(shuffled)
    plans = [
        build_plan(spec=spec(algo, files_per_job=2, events_per_job=60), files=some, estimate=HINTS)
        for some in (inputs, shuffled)
    ]
    assert plans[0] == plans[1]


def test_a_group_ends_where_it_is_full_even_in_the_middle_of_a_file() -> None:
    big = [file(1, events=100)]
    plan = build_plan(spec=spec(SplittingAlgo.EVENT_BASED, events_per_job=5), files=big, estimate=HINTS)
    assert [len(group.jobs) for group in plan.groups] == [8, 8, 4]


@given(st.integers(1, 5000), st.integers(1, 400), st.integers(1, 90), st.integers(1, 10_000))
def test_generated_events_and_lumis_are_unique(events: int, per_job: int, per_lumi: int, first: int) -> None:
    plan = build_generation_plan(
        spec=spec(SplittingAlgo.EVENT_BASED, events_per_job=per_job, events_per_lumi=per_lumi),
        budget=EventBudget(first_event=first, first_lumi=7, events=events),
        sites=frozenset(SITES),
        estimate=HINTS,
    )
    made = [job.generate for group in plan.groups for job in group.jobs if job.generate]
    numbers = [n for one in made for n in range(one.first_event, one.last_event + 1)]
    lumis = [n for one in made for n in range(one.first_lumi, one.last_lumi + 1)]
    assert numbers == list(range(first, first + events))
    assert lumis == list(range(7, 7 + len(lumis)))
    assert (plan.next_first_event, plan.next_first_lumi) == (first + events, 7 + len(lumis))


def test_a_file_no_site_can_read_is_named_and_not_planned() -> None:
    plan = build_plan(spec=spec(files_per_job=1), files=[file(1), file(2, sites=())], estimate=HINTS)
    assert plan.unplaceable == ("/store/data/f00002.root",)
    assert plan.jobs == 1


def test_guessed_sizes_count_jobs_and_measured_sizes_fill_the_target() -> None:
    inputs = [file(number) for number in range(20)]
    guessed = build_plan(spec=spec(files_per_job=1), files=inputs, estimate=HINTS)
    assert [len(group.jobs) for group in guessed.groups] == [8, 8, 4]
    measured = Estimate(time_per_event_sec=1, memory_mb=1, size_per_event_kb=10_000, source="pilot")
    filled = build_plan(spec=spec(files_per_job=1), files=inputs, estimate=measured)
    assert [len(group.jobs) for group in filled.groups] == [4, 4, 4, 4, 4]


@pytest.mark.parametrize("size_per_event_kb", [0.0, 1e-9])
def test_jobs_that_write_next_to_nothing_are_not_all_one_group(size_per_event_kb: float) -> None:
    measured = Estimate(
        time_per_event_sec=1, memory_mb=1, size_per_event_kb=size_per_event_kb, source="measured"
    )
    one = JobSpec(files=(), sites=frozenset(SITES), events=10)
    groups = list(group_jobs([one] * 2500, spec(), measured))
    assert [len(group.jobs) for group in groups] == [1000, 1000, 500]
    assert [group.first_job for group in groups] == [0, 1000, 2000]


def test_lumis_of_one_run_stand_together() -> None:
    inputs = [file(number, run=number % 2) for number in range(8)]
    plan = build_plan(
        spec=spec(SplittingAlgo.LUMI_BASED, lumis_per_job=3, split_on_run=False),
        files=inputs,
        estimate=HINTS,
    )
    runs = [run for group in plan.groups for job in group.jobs for run, _, _ in job.mask or ()]
    assert runs == [0] * 4 + [1] * 4


def test_a_job_index_is_unique_within_the_round() -> None:
    plan = build_plan(spec=spec(files_per_job=1), files=[file(n) for n in range(20)], estimate=HINTS)
    starts = [(group.first_job, len(group.jobs)) for group in plan.groups]
    assert starts == [(0, 8), (8, 8), (16, 4)]


def test_an_algorithm_that_is_not_there_is_refused_with_the_ones_that_are() -> None:
    with pytest.raises(UnsupportedSplitting, match=r"RunBased.*EventBased, FileBased, LumiBased"):
        split(cast(SplittingAlgo, "RunBased"), [file(1)], {})


def test_no_jobs_make_no_groups() -> None:
    assert list(group_jobs([], spec(), HINTS)) == []


def shuffled_runs(files: int = 24, runs: int = 3) -> list[FileSpec]:
    """Return files whose names are unrelated to their runs."""
    return [file(number, run=number % runs + 1) for number in range(files)]


def runs_of(plan: Plan) -> list[int]:
    """Return the lowest run of each job, in the order of the jobs."""
    return [
        min(run for window in job.files for run, _, _ in window.file.lumis)
        for group in plan.groups
        for job in group.jobs
    ]


@pytest.mark.parametrize(
    ("algo", "params"),
    [
        (SplittingAlgo.FILE_BASED, {"files_per_job": 1}),
        (SplittingAlgo.EVENT_BASED, {"events_per_job": 50}),
        (SplittingAlgo.EVENT_BASED, {"events_per_job": 1000}),
    ],
)
def test_jobs_of_one_run_are_neighbours(algo: SplittingAlgo, params: dict[str, int]) -> None:
    plan = build_plan(spec=spec(algo, **params), files=shuffled_runs(), estimate=HINTS)

    assert runs_of(plan) == sorted(runs_of(plan))
    first_group = plan.groups[0].jobs
    assert {run for job in first_group for window in job.files for run, _, _ in window.file.lumis} == {1}


def test_jobs_of_several_files_are_those_of_wmcore_in_the_order_of_their_lowest_run() -> None:
    runs = {0: 3, 1: 3, 2: 1, 3: 2, 4: 2, 5: 2}
    files = [file(number, run=run) for number, run in runs.items()]

    plan = build_plan(spec=spec(files_per_job=2), files=files, estimate=HINTS)

    jobs = [[w.file.lfn[-7:-5] for w in job.files] for group in plan.groups for job in group.jobs]
    assert jobs == [["02", "03"], ["04", "05"], ["00", "01"]]


@pytest.mark.parametrize("algo", [SplittingAlgo.FILE_BASED, SplittingAlgo.EVENT_BASED])
def test_files_are_ordered_by_the_run_that_is_left_of_them(algo: SplittingAlgo) -> None:
    both = ((1, 1, 5), (2, 1, 5))
    first = replace(file(0), lumis=both, mask=((2, 1, 5),))
    second = replace(file(1), lumis=((1, 6, 9),))

    one_each = spec(algo, files_per_job=1, events_per_job=1000)
    plan = build_plan(spec=one_each, files=[first, second], estimate=HINTS)

    read = [window.file.lfn for group in plan.groups for job in group.jobs for window in job.files]
    assert read == [second.lfn, first.lfn]


@pytest.mark.parametrize(
    ("algo", "stop"),
    [(SplittingAlgo.FILE_BASED, {"total_files": 2}), (SplittingAlgo.EVENT_BASED, {"total_events": 200})],
)
def test_an_early_stop_takes_the_first_files_by_name_regardless_of_their_run(
    algo: SplittingAlgo, stop: dict[str, int]
) -> None:
    files = [file(number, run=9 - number) for number in range(4)]

    jobs = split(algo, files, {"files_per_job": 1, "events_per_job": 100, **stop})

    assert {window.file.lfn for job in jobs for window in job.files} == {files[0].lfn, files[1].lfn}


def test_files_without_lumis_come_first() -> None:
    bare = replace(file(1), lumis=())

    plan = build_plan(spec=spec(files_per_job=1), files=[file(0), bare], estimate=HINTS)

    assert [job.files[0].file.lfn for group in plan.groups for job in group.jobs] == [bare.lfn, file(0).lfn]
