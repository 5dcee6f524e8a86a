"""`decide_round` plans a round, for preview and production."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice

from dags_app.planning.early_stop import early_stop, narrow, without_early_stop
from dags_app.planning.merge_groups import group_jobs
from dags_app.planning.splitters import split
from dags_app.planning.splitters.event_based import split_generation
from dags_app.planning.types import (
    Estimate,
    EventBudget,
    FileSpec,
    GroupSpec,
    JobSpec,
    Plan,
    PlanSpec,
    SitePool,
)
from wms2_project.errors import PermanentError, Wms2Error

PER_GROUP = "per_group"  # lumis continue from job to job in a group; otherwise each job starts new ones


class PlanRefused(PermanentError):
    """No round can be planned; a person must change something."""


class NothingPlaceable(PlanRefused):
    """No usable site can read any of the remaining files; a replica may appear later."""


class NothingToPlan(Wms2Error):
    """All input is assigned or processed already."""


@dataclass(frozen=True, slots=True)
class RoundInput:
    """All input of planning: equal input gives an equal plan, byte for byte."""

    spec: PlanSpec
    estimate: Estimate
    sites: SitePool
    files: Sequence[FileSpec] = ()
    budget: EventBudget | None = None  # if the workflow generates its events
    limit_groups: int | None = None
    max_jobs: int | None = None  # the rest is planned in the next round


def decide_round(given: RoundInput) -> Plan:
    """Return the next round; raise PlanRefused or NothingToPlan if there is none."""
    if not given.sites.names:
        raise PlanRefused(
            "no site may run this request: site lists, drains and bans exclude every site",
            cure="Extend the site list or enable a site",
        )
    per_core = given.estimate.memory_mb / given.estimate.cores
    fitting = given.sites.offering(per_core)
    if not fitting:
        raise PlanRefused(
            f"no usable site offers {per_core:.0f} MB per core",
            cure="Request less memory or more cores, or add a site",
        )
    if given.budget is not None:
        plan = build_generation_plan(
            spec=given.spec,
            budget=given.budget,
            sites=fitting,
            estimate=given.estimate,
            limit_groups=given.limit_groups,
            max_jobs=given.max_jobs,
        )
    else:
        spec, files = given.spec, _at(given.files, fitting, everywhere=fitting == given.sites.names)
        if early_stop(spec.algo, spec.params):
            spec, files = without_early_stop(spec), narrow(spec, files)
        plan = build_plan(
            spec=spec,
            files=files,
            estimate=given.estimate,
            limit_groups=given.limit_groups,
            max_jobs=given.max_jobs,
        )
    _refuse_impossible(plan)
    if not plan.groups:
        _refuse_unplaceable(plan, given)
        raise NothingToPlan(f"{given.spec.request_name} has nothing left to plan")
    return replace(plan, events_per_job=given.spec.params.get("events_per_job"))


def _at(files: Sequence[FileSpec], sites: frozenset[str], *, everywhere: bool) -> Sequence[FileSpec]:
    """Return the files restricted to these sites."""
    return files if everywhere else [replace(file, sites=file.sites & sites) for file in files]


def _refuse_unplaceable(plan: Plan, given: RoundInput) -> None:
    readable = {file.lfn for file in given.files if file.sites}
    small = [lfn for lfn in plan.unplaceable if lfn in readable]
    if small:
        raise PlanRefused(
            f"no usable site has both the memory and the data of {len(small)} files, the first is {small[0]}",
            cure="Request less memory or more cores, or add a site that has the files",
        )
    if plan.unplaceable:
        raise NothingPlaceable(
            f"no usable site can read {len(plan.unplaceable)} files of the input,"
            f" the first is {plan.unplaceable[0]}",
            cure="Add a site that has the files, or wait for a replica",
        )


def _refuse_impossible(plan: Plan) -> None:
    failed = [job for group in plan.groups for job in group.jobs if job.failed]
    if failed:
        raise PlanRefused(
            f"{len(failed)} jobs cannot succeed, the first reads {failed[0].files[0].file.lfn}:"
            f" {failed[0].failed_reason} ({failed[0].failed_code})",
            cure="Exclude these files or change the splitting parameters",
        )


def build_plan(
    *,
    spec: PlanSpec,
    files: Sequence[FileSpec],
    estimate: Estimate,
    limit_groups: int | None = None,
    max_jobs: int | None = None,
) -> Plan:
    """Return jobs and groups that cover these files exactly once, in a deterministic order."""
    placeable = [file for file in files if file.sites]
    unplaceable = tuple(sorted(file.lfn for file in files if not file.sites))
    jobs = split(spec.algo, placeable, spec.params, time_per_event_sec=estimate.time_per_event_sec)
    with _collector_paused():
        groups, truncated = _first_groups(
            group_jobs(islice(jobs, max_jobs), spec, estimate), jobs, limit_groups
        )
    return Plan(groups=groups, estimate=estimate, unplaceable=unplaceable, truncated=truncated)


def _first_groups(
    every: Iterator[GroupSpec], jobs: Iterator[JobSpec], limit_groups: int | None
) -> tuple[tuple[GroupSpec, ...], bool]:
    """Return the groups that fit into a round, and whether there are more."""
    groups = tuple(islice(every, limit_groups))
    return groups, next(every, None) is not None or next(jobs, None) is not None


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector: it takes a seventh of the time of a large plan and finds nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def build_generation_plan(
    *,
    spec: PlanSpec,
    budget: EventBudget,
    sites: frozenset[str],
    estimate: Estimate,
    limit_groups: int | None = None,
    max_jobs: int | None = None,
) -> Plan:
    """Return jobs and groups that generate the budget, and the start of the next round."""
    jobs = split_generation(budget, spec.params, sites)
    groups, truncated = _first_groups(group_jobs(islice(jobs, max_jobs), spec, estimate), jobs, limit_groups)
    if spec.params.get("lumi_mode") == PER_GROUP:
        groups = tuple(_share_lumis(groups, first_lumi=budget.first_lumi))
    last = groups[-1].jobs[-1] if groups else None
    if last is None or last.generate is None:
        return Plan((), estimate, next_first_event=budget.first_event, next_first_lumi=budget.first_lumi)
    return Plan(
        groups=groups,
        estimate=estimate,
        next_first_event=last.generate.position + last.events,
        next_first_lumi=last.generate.last_lumi + 1,
        truncated=truncated,
    )


def _share_lumis(groups: Sequence[GroupSpec], *, first_lumi: int) -> Iterator[GroupSpec]:
    """Number lumis through each group: only its last one may be short, and no two groups share one.

    Where event numbers restart, a new lumi begins.
    """
    for group in groups:
        jobs, origin, last = [], group.jobs[0].generate, first_lumi - 1
        for job in group.jobs:
            made = job.generate
            if made is None or origin is None:
                raise ValueError("only generated jobs have lumis to number")
            if made.first_event < origin.first_event:
                origin, first_lumi = made, last + 1
            last = first_lumi + (made.last_event - origin.first_event) // origin.events_per_lumi
            shared = replace(made, first_lumi=first_lumi, last_lumi=last, numbering_from=origin.first_event)
            jobs.append(job._replace(generate=shared))
        yield replace(group, jobs=tuple(jobs))
        first_lumi = last + 1
