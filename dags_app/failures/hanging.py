"""Which running jobs get nowhere: their CPU time stands still, or they take far longer than others. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from condor.types import RunningJob

# A job that waits in a loop uses a little: below this share of the time its CPU time stands still.
CPU_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class HangLimits:
    """From when on a job hangs: without CPU time for so long, or running so many times the measured p95."""

    cpu_sec: float
    runtime_factor: float
    min_runtime_sec: float  # a job that runs for less is not too slow, whatever was measured


@dataclass(frozen=True, slots=True)
class Sample:
    """The CPU time of a job, and since when it has been the same."""

    cpu_sec: float
    since: datetime


def next_sample(job: RunningJob, earlier: Sample | None, *, now: datetime, limits: HangLimits) -> Sample:
    """What to remember of the job until the next look; a job seen first is measured from its start."""
    if earlier is None or earlier.since < job.started_at or earlier.cpu_sec > job.cpu_sec:
        earlier = Sample(0.0, job.started_at)
    moved = job.cpu_sec - earlier.cpu_sec >= CPU_SHARE * limits.cpu_sec
    return Sample(job.cpu_sec, now) if moved else earlier


def describe_hang(
    job: RunningJob, sample: Sample, *, p95_sec: float | None, now: datetime, limits: HangLimits
) -> str:
    """Why the job counts as hanging; '' if it does not."""
    if now - sample.since >= timedelta(seconds=limits.cpu_sec):
        return f"used no CPU time for {_minutes(now - sample.since)}"
    ran = now - job.started_at
    if p95_sec and ran.total_seconds() >= max(limits.runtime_factor * p95_sec, limits.min_runtime_sec):
        usual = _minutes(timedelta(seconds=p95_sec))
        return f"has run for {_minutes(ran)}, where 95% of the finished jobs took at most {usual}"
    return ""


def _minutes(time: timedelta) -> str:
    return f"{max(time.total_seconds() / 60, 1):.0f} min"
