"""Input at and beyond the limits: correct jobs or an error, never a wrong or endless plan."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from dags_app.planning.plan import build_plan
from dags_app.planning.splitters import split
from dags_app.planning.splitters.event_based import LAST_EVENT_NUMBER, split_generation
from dags_app.planning.types import EventBudget, FileSpec, JobSpec
from dags_app.states import SplittingAlgo
from sandbox.lumis import LumiRange
from tests.unit.planning.factories import HINTS, spec
from wms2_project.errors import InvalidInput

LUMI, AWARE = SplittingAlgo.LUMI_BASED, SplittingAlgo.EVENT_AWARE_LUMI_BASED
HERE, THERE = frozenset({"T1_US_FNAL"}), frozenset({"T2_CH_CERN"})


def one(
    name: str, *lumis: LumiRange, events: int = 100, sites: frozenset[str] = HERE, **more: Any
) -> FileSpec:
    return FileSpec(
        lfn=f"/store/data/{name}.root", events=events, size_bytes=1, sites=sites, lumis=lumis, **more
    )


def read(job: JobSpec) -> list[tuple[str, tuple[LumiRange, ...] | None]]:
    return [(window.file.lfn[12:-5], window.mask) for window in job.files]


@pytest.mark.parametrize("algo", list(SplittingAlgo))
@pytest.mark.parametrize(
    "wrong",
    [
        {"files_per_job": 0},
        {"events_per_job": -5},
        {"lumis_per_job": math.nan},
        {"lumi_mask": {"1": [[9, 3]]}},
        {"splitOnRun": "no"},
    ],
)
def test_faulty_parameters_are_refused_before_the_first_job(
    algo: SplittingAlgo, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match="|".join([*wrong, "split_on_run"])):
        split(algo, [one("a", (1, 1, 2))], wrong)


@pytest.mark.parametrize("algo", list(SplittingAlgo))
@pytest.mark.parametrize("events", [-1, math.nan, "7", True])
def test_a_file_with_an_impossible_count_is_refused_by_name(algo: SplittingAlgo, events: Any) -> None:
    with pytest.raises(InvalidInput, match=r"/store/data/a\.root"):
        split(algo, [one("a", (1, 1, 2), events=events)], {})


@pytest.mark.parametrize("algo", [LUMI, AWARE])
def test_a_file_with_reversed_lumis_is_refused(algo: SplittingAlgo) -> None:
    with pytest.raises(InvalidInput, match="lumi ranges"):
        list(split(algo, [one("a", (1, 5, 2))], {}))


@pytest.mark.parametrize("algo", list(SplittingAlgo))
def test_a_file_given_twice_is_read_once(algo: SplittingAlgo) -> None:
    file = one("a", (1, 1, 4))
    assert list(split(algo, [file, file, one("a", (1, 1, 4))], {})) == list(split(algo, [file], {}))


def test_one_name_with_two_meanings_is_refused() -> None:
    with pytest.raises(InvalidInput, match="given twice"):
        split(LUMI, [one("a", (1, 1, 4)), one("a", (1, 1, 5))], {})


@pytest.mark.parametrize("algo", list(SplittingAlgo))
def test_no_files_make_no_jobs(algo: SplittingAlgo) -> None:
    assert list(split(algo, [], {})) == []


@pytest.mark.parametrize("algo", [LUMI, AWARE])
def test_files_without_lumis_make_no_lumi_jobs(algo: SplittingAlgo) -> None:
    jobs = list(split(algo, [one("a"), one("b", (1, 1, 1))], {"lumis_per_job": 5}))
    assert [read(job) for job in jobs] == [[("b", None)]]
    assert list(split(algo, [one("a")], {})) == []


@pytest.mark.parametrize("algo", [LUMI, AWARE])
def test_ten_million_lumis_in_one_range_are_a_range(algo: SplittingAlgo) -> None:
    whole = one("a", (1, 1, 10_000_000), events=10_000_000)
    jobs = list(split(algo, [whole], {"lumis_per_job": 4_000_000, "events_per_job": 4_000_000}))
    assert [job.mask for job in jobs] == [
        ((1, 1, 4_000_000),),
        ((1, 4_000_001, 8_000_000),),
        ((1, 8_000_001, 10_000_000),),
    ]


def test_jobs_come_one_by_one_and_leave_nothing_behind() -> None:
    jobs = split(LUMI, [one("a", (1, 1, 10_000_000))], {"lumis_per_job": 1})
    next(jobs)
    tracemalloc.start()
    assert sum(1 for _ in islice(jobs, 5000)) == 5000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000


def test_a_shared_lumi_is_read_from_each_file_once_although_one_mask_names_it() -> None:
    first, second = one("a", (1, 1, 3), (1, 42, 42), (1, 50, 50)), one("b", (1, 42, 42), (1, 60, 60))
    jobs = list(split(LUMI, [first, second], {"lumis_per_job": 4}))
    assert [job.mask for job in jobs] == [
        ((1, 1, 3), (1, 42, 42)),
        ((1, 50, 50), (1, 42, 42), (1, 60, 60)),
    ]
    assert read(jobs[0]) == [("a", None)]
    assert read(jobs[1]) == [("a", ((1, 50, 50),)), ("b", None)]


def test_a_corrected_lumi_brings_its_other_files_to_the_first_job() -> None:
    first, second = one("a", (1, 1, 2), (1, 42, 42)), one("b", (1, 42, 42), (1, 60, 60))
    jobs = list(split(LUMI, [first, second], {"lumis_per_job": 3, "applyLumiCorrection": True}))
    assert [(read(job), job.mask) for job in jobs] == [
        ([("a", None), ("b", None)], ((1, 1, 2), (1, 42, 42))),
        ([("b", None)], ((1, 60, 60),)),
    ]


def test_a_corrected_lumi_never_brings_a_file_to_another_place() -> None:
    near, far = one("a", (1, 1, 2)), one("b", (1, 2, 3), sites=THERE)
    jobs = list(split(LUMI, [near, far], {"lumis_per_job": 9, "apply_lumi_correction": True}))
    assert [(job.sites, read(job), job.mask) for job in jobs] == [
        (HERE, [("a", None)], ((1, 1, 2),)),
        (THERE, [("b", None)], ((1, 2, 3),)),
    ]


@pytest.mark.parametrize("algo", [SplittingAlgo.FILE_BASED, LUMI, AWARE])
def test_a_file_that_brings_a_mask_is_read_only_there(algo: SplittingAlgo) -> None:
    rest = one("a", (1, 1, 9), mask=((1, 4, 5), (1, 30, 40)))
    (job,) = split(algo, [rest], {"lumis_per_job": 9, "lumi_mask": {"1": [[1, 9]]}})
    assert job.mask == ((1, 4, 5),)


def test_files_with_and_without_a_mask_share_a_job_and_keep_their_own() -> None:
    (job,) = split(SplittingAlgo.FILE_BASED, [one("a", (1, 1, 9), mask=((1, 4, 5),)), one("b")], {})
    assert (job.mask, read(job)) == (None, [("a", ((1, 4, 5),)), ("b", None)])


def test_a_lumi_that_runs_too_long_fails_with_a_sentence() -> None:
    files = [one("a", (7, 3, 3), events=2000), one("b", (7, 4, 5), events=100)]
    limits = {"job_time_limit": 1500, "events_per_job": 100}
    failed, fine = split(AWARE, files, limits, time_per_event_sec=1.0)
    assert (failed.failed, failed.failed_code, fine.failed) == (True, 99305, False)
    assert "lumi 3 of run 7" in failed.failed_reason
    assert "2000 s" in failed.failed_reason
    assert "1500 s" in failed.failed_reason


def generated(first_event: int, events: int, **params: int) -> Iterator[tuple[int, int, int, int]]:
    for job in split_generation(EventBudget(first_event, 1, events), params, HERE):
        made = job.generate
        assert made is not None
        yield made.first_event, made.last_event, made.first_lumi, made.last_lumi


def test_lumis_that_do_not_divide_a_job_start_anew_with_the_next() -> None:
    assert list(generated(1, 250, events_per_job=100, events_per_lumi=40)) == [
        (1, 100, 1, 3),
        (101, 200, 4, 6),
        (201, 250, 7, 8),
    ]


@pytest.mark.parametrize(
    ("first", "events", "starts"),
    [
        (LAST_EVENT_NUMBER - 9, 10, [LAST_EVENT_NUMBER - 9]),  # exactly full: the last number is used
        (LAST_EVENT_NUMBER - 9, 11, [LAST_EVENT_NUMBER - 9, 1]),
        (LAST_EVENT_NUMBER - 8, 20, [1, 11]),
        (LAST_EVENT_NUMBER - 4, 5, [1]),  # a short last job stays off the last number
        (LAST_EVENT_NUMBER - 5, 5, [LAST_EVENT_NUMBER - 5]),
    ],
)
def test_event_numbers_start_over_before_they_end(first: int, events: int, starts: list[int]) -> None:
    jobs = list(generated(first, events, events_per_job=10))
    assert [job[0] for job in jobs] == starts
    assert all(job[1] <= LAST_EVENT_NUMBER for job in jobs)


@pytest.mark.parametrize("wrong", [{"events_per_job": 0}, {"events_per_lumi": -1}, {"events_per_job": 2**32}])
def test_generation_refuses_impossible_values(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        split_generation(EventBudget(1, 1, 10), wrong, HERE)


@pytest.mark.parametrize("algo", [LUMI, AWARE, SplittingAlgo.FILE_BASED])
def test_ten_million_lumis_in_two_thousand_files_are_planned_in_little_memory(
    algo: SplittingAlgo,
) -> None:
    inputs = [one(f"{n:05}", (1, n * 5000 + 1, n * 5000 + 5000), events=50_000) for n in range(2000)]
    tracemalloc.start()
    plan = build_plan(
        spec=spec(algo, lumis_per_job=2000, events_per_job=20_000, files_per_job=5),
        files=inputs,
        estimate=HINTS,
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert plan.jobs == (400 if algo == SplittingAlgo.FILE_BASED else 5000)
    assert plan.events == 100_000_000
    assert peak < 20_000_000


def test_gathered_runs_have_a_job_each_from_all_files_that_hold_them() -> None:
    inputs = [
        FileSpec(f"/store/f{number}.root", 40, 1, frozenset(["T1_US_FNAL"]), lumis=lumis)
        for number, lumis in enumerate(
            [((1, 1, 2), (2, 1, 2)), ((1, 3, 4), (2, 3, 4)), ((2, 5, 8),), ((3, 1, 4),)]
        )
    ]
    wanted: dict[str, Any] = {"lumis_per_job": 1000, "gather_runs": True, "run_blacklist": [3]}

    jobs = list(split(SplittingAlgo.LUMI_BASED, inputs, wanted))

    assert [job.mask for job in jobs] == [((1, 1, 2), (1, 3, 4)), ((2, 1, 2), (2, 3, 4), (2, 5, 8))]
    assert [[window.file.lfn for window in job.files] for job in jobs] == [
        ["/store/f0.root", "/store/f1.root"],
        ["/store/f0.root", "/store/f1.root", "/store/f2.root"],
    ]
    assert [job.events for job in jobs] == [40, 80]
