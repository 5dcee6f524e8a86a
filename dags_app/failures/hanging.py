"""Hanging jobs: their CPU time does not grow, or they run far longer than others. Stragglers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from condor.types import RunningJob

# A waiting job uses little CPU: below this share of the time, its CPU time counts as not growing.
CPU_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class HangLimits:
    """Limits beyond which a job hangs: time without CPU usage, or multiple of the measured p95."""

    cpu_sec: float
    runtime_factor: float
    min_runtime_sec: float  # shorter runs never count as too slow


@dataclass(frozen=True, slots=True)
class Sample:
    """The CPU time of a job, and since when it has not grown."""

    cpu_sec: float
    since: datetime


def next_sample(job: RunningJob, earlier: Sample | None, *, now: datetime, limits: HangLimits) -> Sample:
    """Return the sample to keep until the next check; a new job is measured from its start."""
    if earlier is None or earlier.since < job.started_at or earlier.cpu_sec > job.cpu_sec:
        earlier = Sample(0.0, job.started_at)
    moved = job.cpu_sec - earlier.cpu_sec >= CPU_SHARE * limits.cpu_sec
    return Sample(job.cpu_sec, now) if moved else earlier


def describe_hang(
    job: RunningJob, sample: Sample, *, p95_sec: float | None, now: datetime, limits: HangLimits
) -> str:
    """Return why the job counts as hanging; empty if it does not."""
    if now - sample.since >= timedelta(seconds=limits.cpu_sec):
        return f"used no CPU time for {_minutes(now - sample.since)}"
    return describe_slow(job, p95_sec=p95_sec, now=now, factor=limits.runtime_factor, limits=limits)


def describe_slow(
    job: RunningJob, *, p95_sec: float | None, now: datetime, factor: float, limits: HangLimits
) -> str:
    """Return why the job counts as slow: it runs longer than this multiple of the p95. Empty if it is not."""
    ran = now - job.started_at
    if not factor or not p95_sec or ran.total_seconds() < max(factor * p95_sec, limits.min_runtime_sec):
        return ""
    usual = _minutes(timedelta(seconds=p95_sec))
    return f"has run for {_minutes(ran)}, where 95% of the finished jobs took at most {usual}"


def _minutes(time: timedelta) -> str:
    return f"{max(time.total_seconds() / 60, 1):.0f} min"
