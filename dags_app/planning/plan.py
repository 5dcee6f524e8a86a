"""`decide_round`: the one function that decides a round. Preview and production both call it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from dags_app.planning.merge_groups import group_jobs
from dags_app.planning.splitters import split
from dags_app.planning.splitters.event_based import split_generation
from dags_app.planning.types import Estimate, EventBudget, FileSpec, Plan, PlanSpec, SitePool
from wms2_project.errors import PermanentError, Wms2Error


class PlanRefused(PermanentError):
    """Nothing sensible can be planned; a person must change something."""


class NothingToPlan(Wms2Error):
    """All input is assigned or processed already."""


@dataclass(frozen=True, slots=True)
class RoundInput:
    """Everything a round depends on: the same input gives the same plan, byte for byte."""

    spec: PlanSpec
    estimate: Estimate
    sites: SitePool
    files: Sequence[FileSpec] = ()
    budget: EventBudget | None = None  # of a workflow that generates its events
    limit_groups: int | None = None


def decide_round(given: RoundInput) -> Plan:
    """The next round as a value, or the sentence that says why there is none."""
    if not given.sites.names:
        raise PlanRefused(
            "no site may run this request: site lists, drains and bans leave none",
            cure="Widen the site list or enable a site",
        )
    if given.budget is not None:
        plan = build_generation_plan(
            spec=given.spec,
            budget=given.budget,
            sites=given.sites.names,
            estimate=given.estimate,
            limit_groups=given.limit_groups,
        )
    else:
        plan = build_plan(
            spec=given.spec, files=given.files, estimate=given.estimate, limit_groups=given.limit_groups
        )
    _refuse_impossible(plan)
    if not plan.groups:
        raise NothingToPlan(f"{given.spec.request_name} has nothing left to plan")
    return replace(plan, events_per_job=given.spec.params.get("events_per_job"))


def _refuse_impossible(plan: Plan) -> None:
    if plan.unplaceable:
        raise PlanRefused(
            f"no usable site can read {len(plan.unplaceable)} files, the first is {plan.unplaceable[0]}",
            cure="Add a site that holds them, or wait for a replica",
        )
    failed = [job for group in plan.groups for job in group.jobs if job.failed]
    if failed:
        raise PlanRefused(
            f"{len(failed)} jobs cannot succeed, the first reads {failed[0].files[0].file.lfn}:"
            f" {failed[0].failed_reason} ({failed[0].failed_code})",
            cure="Exclude these files or change the splitting parameters",
        )


def build_plan(
    *, spec: PlanSpec, files: Sequence[FileSpec], estimate: Estimate, limit_groups: int | None = None
) -> Plan:
    """Jobs and groups that cover these files exactly once, in an order that depends on nothing else."""
    placeable = [file for file in files if file.sites]
    unplaceable = tuple(sorted(file.lfn for file in files if not file.sites))
    jobs = split(spec.algo, placeable, spec.params, time_per_event_sec=estimate.time_per_event_sec)
    groups = tuple(islice(group_jobs(jobs, spec, estimate), limit_groups))
    return Plan(groups=groups, estimate=estimate, unplaceable=unplaceable)


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
        next_first_event=budget.first_event + sum(group.events for group in groups),
        next_first_lumi=ends[-1].last_lumi + 1 if ends else budget.first_lumi,
    )
