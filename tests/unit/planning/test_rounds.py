"""Dependence of a round on sites, memory, lumi numbering and earlier rounds."""

from __future__ import annotations

import pytest

from dags_app.planning.coverage import read_plan
from dags_app.planning.estimates import (
    Measurement,
    common_estimate,
    estimate_from_rounds,
    steer_events_per_job,
)
from dags_app.planning.plan import NothingToPlan, PlanRefused, RoundInput, decide_round
from dags_app.planning.types import Estimate, EventBudget, SitePool
from dags_app.states import SplittingAlgo
from tests.unit.planning.factories import HINTS, file, spec

FNAL, CERN = "T1_US_FNAL", "T2_CH_CERN"
POOL = SitePool(names=frozenset({FNAL, CERN}), by_storage={})
WINDOW = (2000, 3000)


def test_a_site_without_the_memory_is_not_used() -> None:
    pool = SitePool(names=POOL.names, by_storage={}, memory_mb_per_core={CERN: 2000})
    plan = decide_round(
        RoundInput(
            spec=spec(files_per_job=1), estimate=HINTS, sites=pool, files=[file(1, sites=(FNAL, CERN))]
        )
    )
    assert plan.groups[0].sites == {FNAL}


def test_no_site_with_both_data_and_memory_is_an_error() -> None:
    pool = SitePool(names=POOL.names, by_storage={}, memory_mb_per_core={CERN: 2000})
    with pytest.raises(PlanRefused, match=r"both the memory and the data of 1 files.*f00001"):
        decide_round(
            RoundInput(spec=spec(files_per_job=1), estimate=HINTS, sites=pool, files=[file(1, sites=(CERN,))])
        )


def test_no_site_with_the_memory_is_an_error() -> None:
    pool = SitePool(names=POOL.names, by_storage={}, memory_mb_per_core={CERN: 2000, FNAL: 1000})
    with pytest.raises(PlanRefused, match="no usable site offers 2300 MB per core"):
        decide_round(RoundInput(spec=spec(), estimate=HINTS, sites=pool, files=[file(1)]))


def test_nothing_left_is_distinguished_from_impossible() -> None:
    with pytest.raises(NothingToPlan):
        decide_round(RoundInput(spec=spec(), estimate=HINTS, sites=POOL, files=[]))


def test_a_limited_round_takes_the_first_groups_and_leaves_the_rest() -> None:
    files = [file(number) for number in range(40)]
    given = RoundInput(spec=spec(files_per_job=1), estimate=HINTS, sites=POOL, files=files, limit_groups=2)
    plan = decide_round(given)
    assert [len(group.jobs) for group in plan.groups] == [8, 8]


def test_a_limited_generation_continues_where_it_stopped() -> None:
    budget = EventBudget(first_event=101, first_lumi=11, events=10_000)
    plan = decide_round(
        RoundInput(
            spec=spec(SplittingAlgo.EVENT_BASED, events_per_job=10),
            estimate=HINTS,
            sites=POOL,
            budget=budget,
            limit_groups=1,
        )
    )
    assert (plan.next_first_event, plan.next_first_lumi, plan.jobs) == (181, 19, 8)


def test_lumis_continue_through_a_group_if_configured() -> None:
    plan = decide_round(
        RoundInput(
            spec=spec(
                SplittingAlgo.EVENT_BASED, events_per_job=30, events_per_lumi=50, lumi_mode="per_group"
            ),
            estimate=HINTS,
            sites=POOL,
            budget=EventBudget(first_event=1, first_lumi=1, events=480),
        )
    )
    seen: dict[int, set[int]] = {}
    for group in plan.groups:
        for job in group.jobs:
            made = job.generate
            assert made is not None
            assert made.numbering_from is not None
            for event in range(made.first_event, made.last_event + 1):
                lumi = made.first_lumi + (event - made.numbering_from) // made.events_per_lumi
                seen.setdefault(lumi, set()).add(group.index)
    assert [len(group.jobs) for group in plan.groups] == [8, 8]
    assert sorted(seen) == list(range(1, 11))
    assert all(len(groups) == 1 for groups in seen.values())
    assert plan.next_first_lumi == 11


def test_medians_for_time_and_maxima_for_memory() -> None:
    measured = [
        Measurement(jobs=8, time_per_event_sec=2.0, peak_rss_mb=1900, size_per_event_kb=10.0),
        Measurement(jobs=1, time_per_event_sec=50.0, peak_rss_mb=2100, size_per_event_kb=90.0),
        Measurement(jobs=8, time_per_event_sec=3.0, peak_rss_mb=1800, size_per_event_kb=12.0),
    ]
    estimate = estimate_from_rounds(measured, cores=1, memory_per_core_mb=WINDOW)
    assert estimate == Estimate(3.0, 2520, 12.0, "measured")


@pytest.mark.parametrize(("peak", "cores", "memory"), [(100, 1, 2000), (9000, 1, 3000), (9000, 4, 10800)])
def test_memory_stays_in_the_window_of_the_cores(peak: int, cores: int, memory: int) -> None:
    measured = [Measurement(jobs=3, time_per_event_sec=1, peak_rss_mb=peak, size_per_event_kb=1)]
    estimate = estimate_from_rounds(measured, cores=cores, memory_per_core_mb=WINDOW)
    assert estimate is not None
    assert estimate.memory_mb == memory


@pytest.mark.parametrize(
    ("asked", "used", "cores"),
    [
        (8, 2.9, 4),
        (8, 4.0, 4),
        (8, 4.1, 8),
        (16, 5.0, 8),
        (6, 5.0, 6),
        (2, 0.5, 2),
        (1, 0.9, 1),
        (8, 11.0, 8),
    ],
)
def test_unused_cores_are_not_requested_again(asked: int, used: float, cores: int) -> None:
    measured = [
        Measurement(jobs=3, time_per_event_sec=1, peak_rss_mb=1, size_per_event_kb=1, cores_used=used)
    ]
    for follows, expected in ((True, cores), (False, asked)):
        estimate = estimate_from_rounds(
            measured, cores=asked, memory_per_core_mb=WINDOW, follows_cores=follows
        )
        assert estimate is not None
        assert (estimate.cores, estimate.memory_mb) == (expected, WINDOW[0] * expected)


@pytest.mark.parametrize(
    ("times", "seconds"), [((4.0, 4.5, 5.0), 4.5), ((4.0, 4.5, 5.1), None), ((4.0, 4.5), None), ((), None)]
)
def test_requests_that_agree_give_one_estimate(times: tuple[float, ...], seconds: float | None) -> None:
    measured = [Estimate(time, 1000 + index, 2.0, "measured") for index, time in enumerate(times)]
    found = common_estimate(measured, at_least=3, tolerance=0.25, cores=2)
    assert found == (Estimate(seconds, 1002, 2.0, "campaign", cores=2) if seconds else None)


def test_two_jobs_say_too_little() -> None:
    measured = [Measurement(jobs=2, time_per_event_sec=1, peak_rss_mb=1, size_per_event_kb=1)]
    assert estimate_from_rounds(measured, cores=1, memory_per_core_mb=WINDOW) is None
    assert estimate_from_rounds([], cores=1, memory_per_core_mb=WINDOW) is None


@pytest.mark.parametrize(
    ("current", "per_event", "expected"),
    [(100, 1.0, 200), (100, 1000.0, 50), (100, 240.0, 120), (1, 1e9, 1), (100, 0.0, 200)],
)
def test_events_per_job_are_steered_at_most_twofold(current: int, per_event: float, expected: int) -> None:
    steered = steer_events_per_job(current=current, time_per_event_sec=per_event, target_job_sec=28_800)
    assert steered == expected


def test_a_round_has_at_most_its_limit_of_jobs_and_the_next_continues() -> None:
    budget, made = EventBudget(first_event=1, first_lumi=1, events=10**12), []
    for _ in range(2):
        plan = decide_round(
            RoundInput(
                spec=spec(SplittingAlgo.EVENT_BASED, events_per_job=100),
                estimate=HINTS,
                sites=POOL,
                budget=budget,
                max_jobs=20,
            )
        )
        assert (plan.jobs, plan.truncated) == (20, True)
        made.append((budget.first_event, plan.next_first_event))
        budget = EventBudget(plan.next_first_event or 0, plan.next_first_lumi or 0, 10**12)
    assert made == [(1, 2001), (2001, 4001)]


@pytest.mark.parametrize(("max_jobs", "truncated"), [(None, False), (9, True), (10, False), (11, False)])
def test_a_round_cut_at_its_job_limit_records_the_rest_of_a_file(
    max_jobs: int | None, truncated: bool
) -> None:
    given = RoundInput(
        spec=spec(SplittingAlgo.EVENT_BASED, events_per_job=10),
        estimate=HINTS,
        sites=POOL,
        files=[file(1, events=100)],
        max_jobs=max_jobs,
    )
    plan = decide_round(given)
    assert (plan.jobs, plan.truncated) == (min(max_jobs or 10, 10), truncated)
    assert read_plan(plan, by_events=True).unfinished == ({file(1).lfn} if truncated else set())


def test_an_early_stop_by_events_does_not_count_through_the_jobs() -> None:
    given = RoundInput(
        spec=spec(SplittingAlgo.EVENT_BASED, events_per_job=1, total_events=10**12),
        estimate=HINTS,
        sites=POOL,
        files=[file(1, events=10**12), file(2, events=10**12)],
        max_jobs=10,
    )
    assert decide_round(given).jobs == 10
