"""A pilot's report is believed only if it can be true."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dags_app.planning.estimates import BadPilotReport, estimate_from_pilot, events_to_generate

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
