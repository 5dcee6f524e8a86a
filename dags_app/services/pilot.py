"""The pilot: a round of one group with one job that measures while it works.

It uses the same planning, submission, monitoring and collecting as any round, so its output is in the
result exactly once and its failure is recovered like any other.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

from django.conf import settings

from dags_app.failures.records import failed_sites
from dags_app.models import DAG, MergeGroup, Round, Workflow
from dags_app.planning.coverage import cuts_by_events
from dags_app.planning.estimates import BadPilotReport, join_reports
from dags_app.planning.lumis import normalised
from dags_app.planning.payloads import reads_whole_runs
from dags_app.planning.plan import NothingPlaceable, NothingToPlan, PlanRefused, RoundInput, decide_round
from dags_app.planning.types import Estimate, EventBudget, FileSpec, Plan, SitePool
from dags_app.services import ledger, production
from dags_app.services.estimating import (
    current_estimate,
    learned_estimate,
    pilot_estimate,
    pilot_windows,
    plan_spec,
)
from dags_app.states import FileState, GroupStatus, RoundKind, RoundStatus, SplittingAlgo
from sandbox.lumis import count


def is_wanted(*, workflow: Workflow, urgent: bool) -> bool:
    """Return whether to run a pilot: not for urgent or adaptive requests, merges and harvests, nor if enough
    is measured, by this request or by finished ones of its campaign.

    A failed pilot is repeated, unless an operator has set the time per event since. A pilot whose report
    was invalid is not repeated: after a release the requestor's estimate is used.
    """
    known = urgent or workflow.adaptive or workflow.pulls or reads_whole_runs(workflow.payload_config)
    known = known or learned_estimate(workflow) is not None
    if known or workflow.rounds.filter(kind=RoundKind.PRODUCTION).exists():
        return False
    ended = workflow.rounds.filter(status=RoundStatus.RESOLVED)
    if workflow.chosen_time_per_event_sec is not None:
        return not ended.exists()
    failed = ended.filter(groups__status__in=[GroupStatus.PLANNED, GroupStatus.FAILED])
    return not ended.exclude(pk__in=failed.values("pk")).exists() or _goes_on(workflow)


def _goes_on(workflow: Workflow) -> bool:
    """Return whether the measurements of pilots still change, and time and input suffice for a larger one."""
    rounds = workflow.rounds.order_by("-number")
    last = rounds.first()
    if last is None or last.kind != RoundKind.PILOT or not workflow.pilot_metrics:
        return False
    measured = last.groups.filter(status=GroupStatus.COLLECTED).exists()
    windows = pilot_windows(workflow)
    if not measured or windows is None or rounds.count() >= settings.PILOT_MAX_ROUNDS:
        return False
    if workflow.generates:
        made = Workflow.objects.values_list("produced_events", flat=True).get(pk=workflow.pk)
        return (workflow.total_events or 0) - made > windows.events
    return workflow.input_files.filter(state=FileState.FRESH, events__gte=windows.events).exists()


def ensure_submitted(*, workflow: Workflow, sites: SitePool, priority: int) -> DAG:
    """Return the pilot's DAG, planned and submitted once."""
    dag = production.newest_dag(workflow=workflow)
    if dag is None or dag.round.status == RoundStatus.RESOLVED:
        with production.faults_refused():
            production.prepare_input(workflow=workflow, sites=sites)
            plan = decide_pilot(workflow=workflow, sites=sites)
        dag = production.write_round(
            workflow=workflow, plan=plan, kind=RoundKind.PILOT, priority=priority, sites=sites
        )
    return production.ensure_submitted(dag=dag, priority=priority, version=workflow.version)


def decide_pilot(*, workflow: Workflow, sites: SitePool) -> Plan:
    """Plan one job: the first events or lumis of the smallest file with enough, or a few generated events.

    Sites where no pilot of the workflow has failed are preferred.
    """
    untried = sites.without(failed_sites(workflow=workflow, kind=RoundKind.PILOT))
    if untried.names and untried.names != sites.names:
        with suppress(PlanRefused, NothingToPlan):
            return _one_job(workflow, untried)
    return _one_job(workflow, sites)


def _one_job(workflow: Workflow, sites: SitePool) -> Plan:
    spec, estimate = plan_spec(workflow), current_estimate(workflow)
    windows = pilot_windows(workflow)
    enough = windows.events if windows else settings.PILOT_INITIAL_EVENTS
    if workflow.generates:
        events = min(enough, workflow.total_events or 1)
        one_job = replace(spec, params={**spec.params, "events_per_job": events})
        budget = EventBudget(workflow.next_first_event, workflow.next_first_lumi, events)
        return decide_round(RoundInput(spec=one_job, estimate=estimate, sites=sites, budget=budget))
    smallest = _smallest_file(workflow, sites, enough)
    algo, params = _cut(smallest, enough, by_events=cuts_by_events(spec.algo))
    one_file = replace(spec, algo=algo, params=params)
    return decide_round(
        RoundInput(spec=one_file, estimate=estimate, sites=sites, files=[smallest], max_jobs=1)
    )


def _cut(file: FileSpec, enough: int, *, by_events: bool) -> tuple[SplittingAlgo, dict[str, int | bool]]:
    """Return algorithm and parameters for one job with enough events of the file, in ranges of the ledger.

    A file is taken whole if it cannot be cut: without lumis, or by events if a mask selects some of them,
    because their position in the file is unknown.
    """
    lumis = normalised(file.lumis)
    if by_events:
        masked = file.mask is not None and file.mask != lumis
        return SplittingAlgo.EVENT_BASED, {"events_per_job": max(file.events, 1) if masked else enough}
    needed = math.ceil(enough * count(lumis) / file.events) if file.events else 0
    if 0 < needed < count(lumis if file.mask is None else file.mask):
        return SplittingAlgo.LUMI_BASED, {"lumis_per_job": needed, "split_on_run": False}
    return SplittingAlgo.FILE_BASED, {"files_per_job": 1}


def _smallest_file(workflow: Workflow, sites: SitePool, enough: int) -> FileSpec:
    offered = ledger.files_to_plan(workflow=workflow, sites=sites)
    readable = [file for files in offered for file in files if file.sites]
    with_events = [file for file in readable if file.events] or readable
    if not with_events:
        raise NothingPlaceable(
            "no usable site can read any file of the input",
            cure="Add a site that has the input, or wait for a replica",
        )
    return min(with_events, key=lambda file: (file.events < enough, abs(file.events - enough), file.lfn))


def record_measurement(*, workflow: Workflow, round_: Round) -> Estimate:
    """Store the pilot's report, joined with those of earlier pilots; return the resulting estimate."""
    group = round_.groups.get()
    report = (group.metrics or {}).get("pilot")
    if not isinstance(report, dict):
        raise BadPilotReport("the pilot left no report", cure="Check the pilot's log")
    pilot_estimate(workflow, report)
    report = join_reports([*_earlier_reports(round_), report])
    estimate = pilot_estimate(workflow, report)
    workflow.pilot_metrics = report
    Workflow.objects.filter(pk=workflow.pk).update(pilot_metrics=report)
    return estimate


def _earlier_reports(round_: Round) -> list[dict[str, Any]]:
    """Return the reports of earlier pilots."""
    earlier = MergeGroup.objects.filter(
        round__workflow=round_.workflow_id,
        round__kind=RoundKind.PILOT,
        round__number__lt=round_.number,
        status=GroupStatus.COLLECTED,
    )
    metrics = earlier.order_by("round__number").values_list("metrics", flat=True)
    return [one["pilot"] for one in metrics if one and isinstance(one.get("pilot"), dict)]
