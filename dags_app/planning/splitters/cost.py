"""What a job is expected to need, from its events."""

from __future__ import annotations

from dataclasses import dataclass

from dags_app.planning.types import JobSpec


@dataclass(frozen=True, slots=True)
class JobCost:
    """Wall time, output and memory of one job."""

    time_sec: float
    disk_kb: float
    memory_mb: int


def job_cost(job: JobSpec, *, time_per_event_sec: float, size_per_event_kb: float, memory_mb: int) -> JobCost:
    """Proportional to the events of the job; memory does not depend on them."""
    return JobCost(
        time_sec=job.events * time_per_event_sec,
        disk_kb=job.events * size_per_event_kb,
        memory_mb=memory_mb,
    )
