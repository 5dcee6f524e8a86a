"""A pilot's report is accepted only if it is plausible."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dags_app.planning.estimates import (
    BadPilotReport,
    Windows,
    decide_windows,
    estimate_from_pilot,
    events_to_generate,
    join_reports,
)

Report = dict[str, Any]
GOOD: dict[str, Any] = {
    "iterations": [
        {"events": 10, "wall_time_sec": 2.0, "memory_mb": 50},
        {"events": 20, "wall_time_sec": 4.0, "memory_mb": 60},
    ],
    "recommended": {
        "events_per_job": 100,
        "memory_mb": 700,
        "time_per_job_sec": 20,
        "output_size_per_event_kb": 1.5,
    },
}


def test_the_pilots_numbers_become_the_estimate() -> None:
    estimate = estimate_from_pilot(GOOD, minimum_memory_mb=500)
    assert estimate.time_per_event_sec == pytest.approx(0.2)
    assert (estimate.memory_mb, estimate.size_per_event_kb, estimate.source) == (700, 1.5, "pilot")


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("recommended", "memory_mb", None),
        ("recommended", "memory_mb", math.nan),
        ("recommended", "output_size_per_event_kb", math.inf),
        ("recommended", "output_size_per_event_kb", -1),
        ("recommended", "events_per_job", "many"),
        ("recommended", "time_per_job_sec", True),
    ],
)
def test_a_report_that_cannot_be_true_is_refused(part: str, key: str, value: object) -> None:
    broken = GOOD | {part: GOOD[part] | {key: value}}
    with pytest.raises(BadPilotReport, match=key):
        estimate_from_pilot(broken, minimum_memory_mb=1)


@pytest.mark.parametrize("broken", [{}, {"recommended": GOOD["recommended"]}, GOOD | {"iterations": []}])
def test_a_report_without_events_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(BadPilotReport):
        estimate_from_pilot(broken, minimum_memory_mb=1)


@pytest.mark.parametrize(
    ("wanted", "efficiency", "at_least"),
    [(0, 0.5, 0), (100, 1.0, 100), (1000, 0.5, 2000), (1000, 0.1, 10_000)],
)
def test_a_filter_makes_us_generate_more(wanted: int, efficiency: float, at_least: int) -> None:
    generated = events_to_generate(wanted=wanted, filter_efficiency=efficiency)
    assert at_least <= generated <= at_least * 1.3 + 1


def pilot_report(*windows: tuple[int, float], converged: bool = False, memory_mb: int = 1000) -> Report:
    iterations = [{"events": events, "wall_time_sec": wall} for events, wall in windows]
    return {"iterations": iterations, "recommended": {"memory_mb": memory_mb}, "converged": converged}


FOUR = ((100, 400.0), (200, 500.0), (400, 700.0), (800, 1100.0))


@pytest.mark.parametrize(
    ("report", "windows"),
    [
        (None, Windows(100, 1500, 28800)),
        (pilot_report(*FOUR), Windows(1600, 4800, 26100)),
        (pilot_report(*FOUR, converged=True), None),
        (pilot_report(*FOUR, (1600, 1700.0), (3200, 3300.0)), Windows(6400, 19200, 21100)),
        (pilot_report(*FOUR, (1600, 2000.0), (3200, 3600.0)), None),  # 21600 s do not fit into 20500
        (pilot_report((0, 10.0)), None),
        (pilot_report(), None),
    ],
)
def test_pilots_measure_larger_windows_until_the_numbers_settle_or_the_time_is_spent(
    report: Report | None, windows: Windows | None
) -> None:
    assert decide_windows(report, initial_events=100, budget_sec=28800) == windows


def test_the_reports_of_several_pilots_are_one() -> None:
    first, second = pilot_report(*FOUR, memory_mb=3000), pilot_report((1600, 2000.0), converged=True)

    joined = join_reports([first, second])

    assert [one["events"] for one in joined["iterations"]] == [100, 200, 400, 800, 1600]
    assert (joined["converged"], joined["recommended"]["memory_mb"]) == (True, 3000)
    assert second["recommended"]["memory_mb"] == 1000
