"""One handler per status: look at the world, do the next idempotent thing, say what should happen.

Handlers call services of the layers below and never write a request's status; each may be repeated
at any point, because every effect they cause is find-or-create.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.conf import settings

from dags_app.models import DAG
from dags_app.planning.estimates import BadPilotReport
from dags_app.planning.types import SitePool
from dags_app.recovery import Hold, decide_recovery
from dags_app.services import collecting, control, input_files, ledger, pilot, production
from dags_app.services.production import NothingToPlan, PlanRefused
from dags_app.states import DAGKind, DAGStatus
from outputs_app import services as outputs
from requests_app import admission
from requests_app.lifecycle.outcome import Move, Outcome, Wait, hold
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from sites_app.selectors import storage_at, usable_sites

Handler = Callable[[Request, datetime], Outcome]


def on_submitted(request: Request, now: datetime) -> Outcome:
    """Find out what the input is, and where."""
    workflow = request.workflow
    if workflow.generates:
        return Move(S.QUEUED, f"generates {workflow.total_events} events, no input to resolve")
    try:
        found = input_files.resolve_input(workflow=workflow, now=now)
    except input_files.NoInput as problem:
        return hold(str(problem), input_dataset=workflow.input_dataset)
    return Move(S.QUEUED, f"input resolved: {found.files} files, {found.events} events")


def on_queued(request: Request, now: datetime) -> Outcome:
    """Wait for a turn; then measure first, unless there is nothing to measure or no time to."""
    verdict = admission.decide(request, now=now)
    if not verdict.admitted:
        return Wait(seconds=settings.POLL_INTERVAL_SEC, why=verdict.why)
    resolved = on_submitted(request, now)  # a request held for its input comes here when released
    if isinstance(resolved, Move) and resolved.to is S.HELD:
        return resolved
    if pilot.is_wanted(workflow=request.workflow, urgent=request.urgent):
        return Move(S.PILOT_RUNNING, f"{verdict.why}; a pilot measures first")
    return Move(S.PLANNING, verdict.why)


def on_pilot_running(request: Request, now: datetime) -> Outcome:
    """Run the pilot round; plan the rest when its numbers are in."""
    workflow = request.workflow
    dag = production.newest_dag(workflow=workflow)
    if dag is None or dag.status == DAGStatus.READY:
        try:
            dag = pilot.ensure_submitted(
                workflow=workflow, sites=_sites(request, now), priority=request.priority
            )
        except PlanRefused as refused:
            return hold(str(refused))
    _collect(request, dag, now)
    if dag.status in (DAGStatus.SUBMITTED, DAGStatus.RUNNING, DAGStatus.HALTED):
        return Wait(seconds=settings.POLL_INTERVAL_SEC, why="the pilot is running")
    if dag.status == DAGStatus.COMPLETED:
        try:
            estimate = pilot.record_measurement(workflow=workflow, round_=dag.round)
        except BadPilotReport as report:
            return hold(str(report), dag=dag.token, submit_dir=dag.submit_dir)
        production.resolve_round(round_=dag.round, now=now)
        return Move(
            S.PLANNING,
            f"pilot measured {estimate.time_per_event_sec:.3g} s and {estimate.size_per_event_kb:.3g} kB"
            f" per event, {estimate.memory_mb} MB",
        )
    if dag.kind == DAGKind.FIRST:
        production.prepare_dag(parent=dag, kind=DAGKind.RESCUE)
        return Wait(seconds=0, why=f"the pilot ended {dag.status}; it is tried once more")
    return hold(f"the pilot ended {dag.status} twice", dag=dag.token, submit_dir=dag.submit_dir)


def on_planning(request: Request, now: datetime) -> Outcome:
    """Plan the next round (or take the prepared DAG) and bring it into the queue exactly once."""
    workflow = request.workflow
    dag = production.newest_dag(workflow=workflow)
    if dag is None or dag.status in (DAGStatus.COMPLETED, DAGStatus.PARTIAL, DAGStatus.FAILED):
        try:
            dag = production.plan_round(
                workflow=workflow, sites=_sites(request, now), priority=request.priority
            )
        except NothingToPlan:
            worn = ledger.worn_out_files(workflow=workflow)
            if worn:
                return hold(f"{len(worn)} files failed in every round, the first is {worn[0]}", files=worn)
            left = ledger.work_left(workflow=workflow)
            if left:
                return hold(f"{left}, and no job can be made of the rest: files without lumis, or masked")
            return Move(S.ACTIVE, "nothing is left to plan; outputs are being finished")
        except PlanRefused as refused:
            return hold(str(refused))
    dag = production.ensure_submitted(dag=dag, priority=request.priority)
    groups = dag.round.groups.count()
    return Move(S.ACTIVE, f"round {dag.round.number} submitted: {groups} groups, {dag.round.jobs} jobs")


def on_active(request: Request, now: datetime) -> Outcome:
    """Collect what finished; when the DAG has ended, decide what the request still needs."""
    workflow = request.workflow
    dag = production.newest_dag(workflow=workflow)
    if dag is not None:
        _collect(request, dag, now)
        if dag.status in (DAGStatus.SUBMITTED, DAGStatus.RUNNING, DAGStatus.HALTED):
            return Wait(seconds=settings.POLL_INTERVAL_SEC, why=collecting.describe(round_=dag.round))
        if dag.status != DAGStatus.COMPLETED:
            return Move(S.PARTIAL, f"the DAG ended {dag.status}: {dag.nodes_failed} groups failed")
        production.resolve_round(round_=dag.round, now=now)
    left = ledger.work_left(workflow=workflow)
    if left:
        return Move(S.QUEUED, f"next round: {left}")
    outputs.close_blocks(workflow=workflow, now=now)
    waiting = outputs.unannounced(workflow=workflow)
    if waiting:
        return Wait(seconds=settings.POLL_INTERVAL_SEC, why=waiting)
    return _completed(request)


def on_partial(request: Request, now: datetime) -> Outcome:
    """The DAG ended with failures: rescue what a machine should rescue, leave the rest to a person."""
    dag = production.newest_dag(workflow=request.workflow)
    if dag is None:
        return hold("the DAG of this request is gone")
    _collect(request, dag, now)
    failures = production.failures_of(dag=dag)
    decision = decide_recovery(
        failures=failures,
        hold_threshold=float(request.overrides.get("error_hold_threshold", settings.ERROR_HOLD_THRESHOLD)),
        max_rescues=settings.ERROR_MAX_RESCUE_ATTEMPTS,
    )
    if isinstance(decision, Hold):
        return hold(decision.reason, **decision.evidence)
    return Move(S.RESUBMITTING, decision.reason)


def on_stopping(request: Request, now: datetime) -> Outcome:
    """Wait until nothing of the DAG is in the queue, then keep what is done."""
    dag = production.newest_dag(workflow=request.workflow)
    if dag is not None:
        _collect(request, dag, now)
        if dag.status in (DAGStatus.READY, DAGStatus.SUBMITTED, DAGStatus.RUNNING, DAGStatus.HALTED):
            control.remove_dag(dag=dag, reason=dag.stop_reason or "clean stop")
            return Wait(seconds=settings.POLL_INTERVAL_SEC, why="jobs are leaving the queue")
    if request.hold_after_stop:
        return hold("stopped by an operator", stop_reason=dag.stop_reason if dag else "")
    return Move(S.RESUBMITTING, "stopped cleanly; finished groups are kept")


def on_resubmitting(request: Request, now: datetime) -> Outcome:
    """Prepare the DAG that goes on where the last one ended."""
    dag = production.newest_dag(workflow=request.workflow)
    if dag is None or dag.status in (DAGStatus.COMPLETED, DAGStatus.READY):
        return Move(S.QUEUED, "nothing to resume from" if dag is None else "prepared")
    stopped = dag.stop_requested_at is not None
    kind = DAGKind.RESUME if stopped else DAGKind.RESCUE
    production.prepare_dag(parent=dag, kind=kind)
    return Move(S.QUEUED, f"{kind} of {dag.token} prepared")


def _sites(request: Request, now: datetime) -> SitePool:
    return usable_sites(workflow=request.workflow, now=now)


def _collect(request: Request, dag: DAG, now: datetime) -> None:
    """Everything that finished goes into our tables now; a bad manifest does not keep the good ones out."""
    problems: list[collecting.BadManifest] = []
    for found in collecting.finished_groups(dag=dag):
        if isinstance(found, collecting.BadManifest):
            problems.append(found)
        else:
            rse = storage_at(found.manifest.site)
            outputs.record_group(group=found.group, manifest=found.manifest, rse=rse, now=now)
    if problems:
        raise problems[0]


def _completed(request: Request) -> Outcome:
    done = outputs.summary(workflow=request.workflow)
    if not done.files:
        return hold("nothing was produced, so there is nothing to complete")
    return Move(
        S.COMPLETED,
        f"{done.events} events in {done.files} files, {done.blocks} blocks announced",
    )


HANDLERS: dict[S, Handler] = {
    S.SUBMITTED: on_submitted,
    S.QUEUED: on_queued,
    S.PILOT_RUNNING: on_pilot_running,
    S.PLANNING: on_planning,
    S.ACTIVE: on_active,
    S.PARTIAL: on_partial,
    S.STOPPING: on_stopping,
    S.RESUBMITTING: on_resubmitting,
}
