"""A job hangs if its CPU time does not increase or it takes far longer than the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from condor.types import RunningJob
from dags_app.failures.hanging import HangLimits, Sample, describe_hang, next_sample

NOW = datetime(2031, 5, 1, 12, tzinfo=UTC)
LIMITS = HangLimits(cpu_sec=1800, runtime_factor=3, min_runtime_sec=900)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def job(*, ran_min: float, cpu_sec: float) -> RunningJob:
    return RunningJob("wms2-a", "mg_000001", "proc_000003", 7, "T2_CH_CERN", ago(ran_min), cpu_sec)


@pytest.mark.parametrize(
    ("found", "earlier", "expected"),
    [
        (job(ran_min=60, cpu_sec=3000), None, Sample(3000, NOW)),
        (job(ran_min=60, cpu_sec=2), None, Sample(0, ago(60))),
        (job(ran_min=60, cpu_sec=3017), Sample(3000, ago(25)), Sample(3000, ago(25))),
        (job(ran_min=60, cpu_sec=3018), Sample(3000, ago(25)), Sample(3018, NOW)),
        (job(ran_min=5, cpu_sec=1), Sample(1, ago(60)), Sample(0, ago(5))),
        (job(ran_min=60, cpu_sec=1), Sample(3000, ago(25)), Sample(0, ago(60))),
    ],
    ids=["first seen", "idle from its start", "still", "moved", "started again", "less than before"],
)
def test_a_sample_holds_since_when_the_cpu_time_is_the_same(
    found: RunningJob, earlier: Sample | None, expected: Sample
) -> None:
    assert next_sample(found, earlier, now=NOW, limits=LIMITS) == expected


@pytest.mark.parametrize(
    ("ran_min", "still_min", "p95_sec", "message"),
    [
        (60, 29, None, ""),
        (60, 30, None, "used no CPU time for 30 min"),
        (29, 0, 600, ""),
        (30, 0, 600, "has run for 30 min, where 95% of the finished jobs took at most 10 min"),
        (14, 0, 10, ""),
        (15, 0, 10, "has run for 15 min, where 95% of the finished jobs took at most 1 min"),
        (6000, 0, None, ""),
    ],
    ids=[
        "waits",
        "still",
        "not yet too long",
        "too long",
        "short jobs",
        "too long for short jobs",
        "unmeasured",
    ],
)
def test_a_job_hangs_by_its_cpu_time_or_by_its_run_time(
    ran_min: float, still_min: float, p95_sec: float | None, message: str
) -> None:
    sample = Sample(100, ago(still_min))
    found = describe_hang(job(ran_min=ran_min, cpu_sec=100), sample, p95_sec=p95_sec, now=NOW, limits=LIMITS)
    assert found == message
