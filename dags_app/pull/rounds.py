"""Pull rounds: how many runners, at which sites, and files that no usable site may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count

from dags_app.models import DAG, Workflow
from dags_app.planning.plan import NothingPlaceable, NothingToPlan, PlanRefused
from dags_app.planning.types import SitePool
from dags_app.pull.distances import Geography, rank_sources
from dags_app.pull.places import sync_places
from dags_app.pull.planning import build_pull_plan
from dags_app.services import ledger
from dags_app.services.estimating import current_estimate
from dags_app.services.production import faults_refused, write_round
from dags_app.states import FileState, RoundKind, RunnerState
from wms2_project.words import counted


@dataclass(frozen=True, slots=True)
class Waiting:
    """Files that wait to be lent at one set of storages, and the usable sites that may read them."""

    storages: tuple[str, ...]
    files: int
    sites: frozenset[str]


def waiting_sets(
    *, workflow: Workflow, sites: SitePool, edited: Mapping[tuple[str, str], int]
) -> list[Waiting]:
    """Return the sets of places with files to lend, the largest first."""
    geography = Geography(sites.by_storage, edited)
    free = workflow.input_files.filter(
        state__in=[FileState.FRESH, FileState.ATTEMPTED],
        attempts__lt=settings.MAX_FILE_ATTEMPTS,
        place_set__isnull=False,
    )
    rows = free.order_by().values_list("place_set_id", "place_set__storages").annotate(files=Count("id"))
    found = []
    for set_id, storages, files in rows:
        readers = frozenset(
            site
            for site in sites.names
            if rank_sources(
                site=site,
                sets=[(set_id, storages)],
                geography=geography,
                max_distance=workflow.max_distance,
            )
        )
        found.append(Waiting(tuple(storages), files, readers))
    return sorted(found, key=lambda one: -one.files)


def plan_pull_round(
    *, workflow: Workflow, sites: SitePool, priority: int, edited: Mapping[tuple[str, str], int]
) -> DAG:
    """Plan the next pull round, write its directory and record both."""
    if not settings.JOBS_URL:
        raise PlanRefused("WMS2_JOBS_URL is not set, so that jobs cannot request files", cure="Set it")
    sync_places(workflow=workflow)
    estimate = current_estimate(workflow)
    fitting = sites.offering(estimate.memory_mb / estimate.cores)
    waiting = waiting_sets(workflow=workflow, sites=sites, edited=edited)
    readable = [one for one in waiting if one.sites & fitting]
    if not readable:
        if waiting or ledger.work_left(workflow=workflow):
            raise NothingPlaceable(describe_unreadable(workflow, waiting), cure="Allow a site or a distance")
        raise NothingToPlan(f"{workflow.request_name} has nothing left to plan")
    runners = min(sum(one.files for one in readable), workflow.pull_jobs, settings.MAX_JOBS_PER_ROUND)
    usable = frozenset().union(*(one.sites for one in readable)) & fitting
    plan = build_pull_plan(runners=runners, sites=usable, estimate=estimate)
    with faults_refused():
        return write_round(workflow=workflow, plan=plan, kind=RoundKind.PULL, priority=priority, sites=sites)


def describe_unreadable(workflow: Workflow, waiting: list[Waiting]) -> str:
    """Describe the files that no usable site may read."""
    unread = [one for one in waiting if not one.sites]
    files = sum(one.files for one in unread)
    first = unread[0] if unread else None
    where = (
        f", the most of them ({first.files}) at {', '.join(first.storages) or 'no storage'}" if first else ""
    )
    return (
        f"no usable site may read {counted(files, 'file')} within the distance {workflow.max_distance}{where}"
    )


def count_runners(dag: DAG) -> dict[str, int]:
    """Return the number of the round's runners by state, or by outcome if they have ended."""
    rows = dag.round.runners.order_by().values_list("state", "outcome").annotate(count=Count("id"))
    return {str(outcome or state): count for state, outcome, count in rows}


def describe_round(dag: DAG) -> str:
    """Describe the progress of a pull round."""
    counts = count_runners(dag)
    running = counts.get(RunnerState.RUNNING, 0) + counts.get(RunnerState.RECORDED, 0)
    ended = sum(counts.values()) - running
    left = ledger.work_left(workflow=dag.workflow) or "no files are left"
    return f"round {dag.round.number}: {counted(running, 'runner')} at work, {ended} ended; {left}"
