"""Recovery of a failed DAG: record failures, ban sites, then rescue, continue without a pilot, or hold."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from dags_app.failures import records, repair
from dags_app.failures.clusters import RoundFailures
from dags_app.failures.recovery import Hold, Repair, build_evidence, decide_recovery, headline
from dags_app.models import DAG, Workflow
from dags_app.planning.plan import PlanRefused
from dags_app.planning.yields import find_poor_yield
from dags_app.services import production
from dags_app.services.decisions import decided_numbers
from dags_app.services.estimating import round_yields
from dags_app.services.quarantine import quarantine_replicas
from dags_app.states import DAGKind, RoundKind
from requests_app.lifecycle.outcome import Move, Outcome, Wait, hold
from requests_app.models import Request
from requests_app.selectors.requests import requestors_of
from requests_app.states import RequestStatus as S
from sites_app.selectors import banned, usable_sites
from sites_app.services.bans import ban_failing_sites, ban_pilot_sites


def recover(request: Request, dag: DAG, now: datetime) -> Outcome:
    """Decide the outcome of a production round whose DAG ended with failures."""
    found = learn(request, dag, now)
    decision = decide_recovery(
        failures=found,
        rescues=records.rescues_of(dag=dag),
        hold_threshold=decided_numbers(request.workflow).get(
            "error_hold_threshold", settings.ERROR_HOLD_THRESHOLD
        ),
        max_rescues=settings.ERROR_MAX_RESCUE_ATTEMPTS,
    )
    if isinstance(decision, Hold):
        return hold(decision.reason, **decision.evidence, tried=_tried(request, dag, now))
    repairs = _repairs(request, dag, found, now)
    if not isinstance(repairs, list):
        return repairs
    if all(repair.emptied for repair in repairs):
        _go_on_without(dag, repairs, now)
        return Move(S.QUEUED, f"{decision.reason.partition(';')[0]}, and they have no readable input left")
    return Move(S.RESUBMITTING, decision.reason)


def recover_pilot(request: Request, dag: DAG, now: datetime) -> Outcome:
    """Retry a failed pilot once, at another site if possible. Without readable input use the requestor's
    hints.
    """
    found = learn(request, dag, now)
    blame_pilot_sites(dag, now)
    if found.proof or records.rescues_of(dag=dag):
        twice = headline(f"the pilot ended {dag.status} twice", found)
        message = f"the DAG was aborted: {found.proof}" if found.proof else twice
        evidence = build_evidence(found, ratio=1.0, rescues=records.rescues_of(dag=dag))
        return hold(message, **evidence, tried=_tried(request, dag, now))
    repairs = _repairs(request, dag, found, now)
    if not isinstance(repairs, list):
        return repairs
    if all(repair.emptied for repair in repairs):
        _go_on_without(dag, repairs, now)
        return Move(S.PLANNING, "the pilot could not read its input; using the requestor's estimates")
    production.prepare_dag(parent=dag, kind=DAGKind.RESCUE)
    return Wait(seconds=0, why=f"the pilot ended {dag.status}; it is retried once")


def learn(request: Request, dag: DAG, now: datetime) -> RoundFailures:
    """Record the failures of the DAG, quarantine copies proved bad and ban sites for this workflow."""
    sites = usable_sites(workflow=request.workflow, now=now)
    found = records.record_failures(dag=dag, sites=sites)
    quarantine_replicas(dag=dag, failures=found, sites=sites, now=now)
    ban_failing_sites(
        workflow=request.workflow,
        failures=found,
        read_elsewhere=records.files_read_elsewhere(dag=dag),
        requestors_of=requestors_of,
        now=now,
    )
    return found


def blame_pilot_sites(dag: DAG, now: datetime) -> None:
    """Count the failed pilot against its sites, together with the pilots of other requests."""
    sites = records.failed_sites(workflow=dag.workflow, kind=RoundKind.PILOT)
    ban_pilot_sites(sites=sites, requestors_of=requestors_of, now=now)


def _repairs(request: Request, dag: DAG, found: RoundFailures, now: datetime) -> list[Repair] | Move:
    """Return the repairs of the groups, or a hold if a group has no usable site."""
    repairs = repair.decide_repairs(dag=dag, sites=usable_sites(workflow=request.workflow, now=now))
    try:
        repair.check_sites(repairs)
    except PlanRefused as refused:
        ratio = len(found.failed_groups) / max(found.groups, 1)
        evidence = build_evidence(found, ratio=ratio, rescues=records.rescues_of(dag=dag))
        return hold(str(refused), **evidence, tried=_tried(request, dag, now))
    return repairs


def _go_on_without(dag: DAG, repairs: list[Repair], now: datetime) -> None:
    with transaction.atomic():
        repair.record_repairs(dag=dag, repairs=repairs)
        production.resolve_round(round_=dag.round, now=now)


def _tried(request: Request, dag: DAG, now: datetime) -> dict[str, Any]:
    avoided = sorted(banned(workflow=request.workflow, now=now))
    return records.tried(dag=dag) | {"banned_sites": avoided}


def hold_for_yield(workflow: Workflow) -> Move | None:
    """Return a hold if the newest rounds wrote far fewer events than planned, else None.

    A release plans the next round regardless; only the yield of that round can hold the request again.
    """
    if workflow.has_ledger:
        return None
    workflow.refresh_from_db(fields=["produced_events"])
    poor = find_poor_yield(round_yields(workflow), declared=workflow.filter_efficiency)
    if poor is None or workflow.produced_events >= (workflow.total_events or 0):
        return None
    return hold(
        f"{poor.written} of {poor.generated} generated events passed the filter, {poor.expected:.0f} were"
        f" expected: check the generator and filter_efficiency {workflow.filter_efficiency:g}",
        rounds=poor.rounds,
        events_generated=poor.generated,
        events_written=poor.written,
        events_expected=round(poor.expected),
        filter_efficiency_declared=workflow.filter_efficiency,
        filter_efficiency_measured=poor.written / poor.generated,
        next_round_events=production.event_budget(workflow).events,
    )
