"""`build_plan`: the one function that decides a round. Preview and production both call it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from dags_app.planning.merge_groups import group_jobs
from dags_app.planning.splitters import split
from dags_app.planning.splitters.event_based import split_generation
from dags_app.planning.types import Estimate, EventBudget, FileSpec, Plan, PlanSpec


def build_plan(
    *, spec: PlanSpec, files: Sequence[FileSpec], estimate: Estimate, limit_groups: int | None = None
) -> Plan:
    """Jobs and groups that cover these files exactly once, in an order that depends on nothing else."""
    placeable = [file for file in files if file.sites]
    unplaceable = tuple(sorted(file.lfn for file in files if not file.sites))
    groups = group_jobs(split(spec.algo, placeable, spec.params), spec, estimate)
    return Plan(groups=tuple(islice(groups, limit_groups)), estimate=estimate, unplaceable=unplaceable)


def build_generation_plan(
    *,
    spec: PlanSpec,
    budget: EventBudget,
    sites: frozenset[str],
    estimate: Estimate,
    limit_groups: int | None = None,
) -> Plan:
    """Jobs and groups that generate the budget, and where the next round may go on."""
    jobs = split_generation(budget, spec.params, sites)
    groups = tuple(islice(group_jobs(jobs, spec, estimate), limit_groups))
    ends = [job.generate for group in groups for job in group.jobs if job.generate is not None]
    return Plan(
        groups=groups,
        estimate=estimate,
        next_first_event=ends[-1].last_event + 1 if ends else budget.first_event,
        next_first_lumi=ends[-1].last_lumi + 1 if ends else budget.first_lumi,
    )
