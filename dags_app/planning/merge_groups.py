"""Merge groups: neighbouring jobs with the same sites, together about the size of a merged file.

A group may end in the middle of a file: each group is credited with what it reads of it (`coverage`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dags_app.planning.types import Estimate, GroupSpec, JobSpec, PlanSpec

# Limit for very small outputs: with more jobs, losing a site would cost too much, and the merge would open
# too many files.
MAX_JOBS = 1000


def group_jobs(jobs: Iterable[JobSpec], spec: PlanSpec, estimate: Estimate) -> Iterator[GroupSpec]:
    """Fill groups in job order. Measured sizes fill to the target size; guesses only count jobs.

    Files that cannot be joined are alone in their group.
    """
    measured = estimate.source != "hints"
    most = (MAX_JOBS if measured else spec.jobs_per_group) if spec.joins_files else 1
    group: list[JobSpec] = []
    size_kb = 0.0
    index = first_job = 0
    for job in jobs:
        job_kb = job.events * estimate.size_per_event_kb
        full = len(group) >= most or (measured and size_kb + job_kb > spec.target_merged_size_kb)
        if group and (full or job.sites != group[0].sites):
            yield _group(index, first_job, group, size_kb)
            index, first_job, group, size_kb = index + 1, first_job + len(group), [], 0.0
        group.append(job)
        size_kb += job_kb
    if group:
        yield _group(index, first_job, group, size_kb)


def _group(index: int, first_job: int, jobs: list[JobSpec], size_kb: float) -> GroupSpec:
    return GroupSpec(
        index=index,
        first_job=first_job,
        jobs=tuple(jobs),
        sites=jobs[0].sites,
        estimated_output_kb=int(size_kb),
    )
