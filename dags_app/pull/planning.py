"""The plan of a pull round: batches of runners without files. Pure."""

from __future__ import annotations

from dags_app.planning.types import Estimate, GroupSpec, JobSpec, Plan

BATCH = 1000  # runners of a group


def build_pull_plan(*, runners: int, sites: frozenset[str], estimate: Estimate) -> Plan:
    """Return so many runners in batches. All may run at any of the sites."""
    job = JobSpec(files=(), sites=sites, events=0)
    groups = tuple(
        GroupSpec(
            index=index,
            first_job=index * BATCH,
            jobs=(job,) * min(BATCH, runners - index * BATCH),
            sites=sites,
            estimated_output_kb=0,
        )
        for index in range((runners + BATCH - 1) // BATCH)
    )
    return Plan(groups=groups, estimate=estimate)
