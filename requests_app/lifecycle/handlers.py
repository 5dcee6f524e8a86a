"""One handler per status: read the state, do the next idempotent step, return the outcome.

Handlers call services of the layers below and never write a request's status. Each may be repeated at any
point
because every effect is find-or-create.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from django.conf import settings

from dags_app.failures import repair
from dags_app.models import DAG
from dags_app.planning.estimates import BadPilotReport
from dags_app.services import (
    configurations,
    control,
    input_files,
    ledger,
    locations,
    pilot,
    production,
    secondary,
)
from dags_app.services.credentials import CredentialUnavailable
from dags_app.services.manifests import count_groups
from dags_app.services.production import NothingPlaceable, NothingToPlan, PlanRefused
from dags_app.states import (
    ENDED_BY_ITSELF,
    IN_QUEUE,
    DAGKind,
    DAGStatus,
    GroupStatus,
    RoundKind,
    RoundStatus,
)
from outputs_app import services as outputs
from requests_app import admission
from requests_app.lifecycle import finishing, gates, pulling, recovering
from requests_app.lifecycle.credential_gate import credential
from requests_app.lifecycle.dag_edits import follow_edits
from requests_app.lifecycle.gate_result import Gate
from requests_app.lifecycle.locating import before_planning, follow_replicas, look_up
from requests_app.lifecycle.outcome import Move, Outcome, Wait, hold, stop_at
from requests_app.lifecycle.ownership_gates import ownership
from requests_app.lifecycle.quota_gate import quota
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.services import finding, quotas
from requests_app.services.campaigns import learn_from_campaign
from requests_app.services.outputs import collect
from requests_app.states import SWEPT
from requests_app.states import RequestStatus as S
from wms2_project.failpoints import failpoint
from wms2_project.tables import check_complete
from wms2_project.wakeups import DATA, PILEUP
from wms2_project.words import counted

Handler = Callable[[Request, datetime], Outcome]


def on_submitted(request: Request, now: datetime) -> Outcome:
    """Check ownership of the outputs, fetch configurations, resolve the input files and their locations."""
    snapshot = Snapshot(request, now)
    if ownership(snapshot).blocks:
        outputs.check_claims(workflow=request.workflow, now=now)
        snapshot = Snapshot(request, now)
        if (owned := ownership(snapshot)).blocks:
            return stop_at(owned)
    if gates.configuration(snapshot).blocks:
        try:
            configurations.fetch_configurations(workflow=request.workflow)
        except configurations.UnusableConfiguration as problem:
            return hold(str(problem), config_cache_id=problem.config_id)
    known = gates.validation(snapshot)
    if not known.blocks:
        return Move(S.QUEUED, known.detail)
    workflow = request.workflow
    try:
        secondary.refresh_secondary(workflow=workflow, now=now)
        if workflow.pulls and not workflow.input_datasets:
            found_now = finding.find_files(workflow=workflow, now=now)
            return Move(S.QUEUED, f"{counted(found_now, 'file')} to process")
        if workflow.generates:
            return Move(S.QUEUED, gates.validation(snapshot).detail)
        found = input_files.resolve_input(workflow=workflow, now=now, seconds=settings.INPUT_LOOK_SEC)
    except input_files.NoInput as problem:
        if finding.is_followed(workflow=workflow, now=now):
            return Wait(settings.LOCATION_MAX_AGE_SEC, str(problem), known.name)
        return hold(str(problem), input_datasets=list(workflow.input_datasets))
    if found.blocks_left:
        return Wait(0, f"reading the input from DBS: {counted(found.blocks_left, 'block')} left", known.name)
    locations.note_waiting(workflow=workflow, sites=snapshot.sites, now=now)
    return Move(S.QUEUED, f"input resolved: {found.files} files, {found.events} events")


def on_queued(request: Request, now: datetime) -> Outcome:
    """Wait for admission; then start the pilot, or planning if no pilot is wanted."""
    snapshot = _read_input(Snapshot(request, now))
    if not isinstance(snapshot, Snapshot):
        return snapshot
    blocked = gates.blocking_gate(snapshot)
    if blocked:
        if not snapshot.turn.admitted:  # no decision is needed before admission
            blocked = replace(blocked, needs_operator=False)
        return stop_at(blocked, seconds=_pause_at(blocked, snapshot))
    learn_from_campaign(request=request, sites=snapshot.sites, now=now)
    if pilot.is_wanted(workflow=request.workflow, urgent=request.urgent):
        return Move(S.PILOT_RUNNING, f"{snapshot.turn.why}; starting a pilot")
    return Move(S.PLANNING, snapshot.turn.why)


def _pause_at(gate: Gate, snapshot: Snapshot) -> float:
    """Return the seconds until the next check. An event that may open the gate earlier wakes the request."""
    if gate.name in (DATA, PILEUP):
        return float(settings.LOCATION_MAX_AGE_SEC)
    if gate.name == quotas.GATE:  # freed quota wakes the request
        return admission.LONGEST_CHECK_SEC
    if gate.opens_at is None:
        return admission.next_check_sec(snapshot.turn.behind)
    return min(max((gate.opens_at - snapshot.now).total_seconds(), 0.0), admission.LONGEST_CHECK_SEC)


def _read_input(snapshot: Snapshot) -> Outcome | Snapshot:
    """Repeat the checks of SUBMITTED after a release, or refresh locations. Return a snapshot when done."""
    request, workflow, now = snapshot.request, snapshot.workflow, snapshot.now
    unchecked = (ownership, gates.configuration, gates.validation)
    if any(gate(snapshot).blocks for gate in unchecked):
        resolved = on_submitted(request, now)
        settled = isinstance(resolved, Move) and resolved.to is S.QUEUED
        return Snapshot(request, now) if settled else resolved
    try:
        lacking = bool(snapshot.sites.lacking) and not snapshot.sites.names
        if secondary.refresh_secondary(workflow=workflow, now=now, waiting=lacking):
            snapshot = Snapshot(request, now)
    except input_files.NoInput as problem:
        return hold(str(problem))
    waits = workflow.unplaced_since is not None or snapshot.awaits_input
    waits = waits or (workflow.pulls and gates.data(snapshot).blocks)
    if not waits or locations.are_fresh(workflow=workflow, now=now):
        return snapshot
    left = look_up(snapshot)  # continues after a pause while nothing can be placed, to keep the worker free
    snapshot = Snapshot(request, now)
    return snapshot if left is None or gates.data(snapshot).blocks else left


def on_pilot_running(request: Request, now: datetime) -> Outcome:
    """Run the pilot round; move to planning when its measurements are stored."""
    workflow, snapshot = request.workflow, Snapshot(request, now)
    dag = snapshot.dag
    wanted = pilot.is_wanted(workflow=workflow, urgent=request.urgent)
    again = dag is not None and dag.round.status == RoundStatus.RESOLVED and wanted
    if dag is None or again or dag.status == DAGStatus.READY:
        blocked = gates.blocking_gate(snapshot)
        if blocked:
            return stop_at(blocked)
        try:
            if (dag is None or again or snapshot.prepared) and (looking := before_planning(snapshot)):
                return looking
            _bring_up_to_date(snapshot)
            dag = pilot.ensure_submitted(workflow=workflow, sites=snapshot.sites, priority=request.priority)
        except CredentialUnavailable:
            return stop_at(credential(Snapshot(request, now)))
        except NothingPlaceable as refused:
            return Move(S.PLANNING, str(refused))  # where the request returns to the queue
        except PlanRefused as refused:
            return hold(str(refused))
        snapshot.dag = dag
    collect(dag, now)
    if dag.status in IN_QUEUE:
        return _while_running(snapshot, dag)
    if dag.status == DAGStatus.COMPLETED:
        try:
            estimate = pilot.record_measurement(workflow=workflow, round_=dag.round)
        except BadPilotReport as report:
            return hold(str(report), dag=dag.token, submit_dir=dag.submit_dir)
        production.resolve_round(round_=dag.round, now=now)
        recovering.blame_pilot_sites(dag, now)
        if pilot.is_wanted(workflow=workflow, urgent=request.urgent):
            return Wait(seconds=0, why="the pilot's measurements have not converged; a larger pilot follows")
        return recovering.hold_for_yield(workflow) or Move(
            S.PLANNING,
            f"pilot measured {estimate.time_per_event_sec:.3g} s and {estimate.size_per_event_kb:.3g} kB"
            f" per event, {estimate.memory_mb} MB",
        )
    if dag.status == DAGStatus.REMOVED:
        return _removed(dag)
    return recovering.recover_pilot(request, dag, now)


def on_planning(request: Request, now: datetime) -> Outcome:
    """Plan the next round, or take the prepared DAG, and submit it exactly once."""
    workflow, snapshot = request.workflow, Snapshot(request, now)
    dag, blocked = snapshot.dag, gates.blocking_gate(snapshot)
    if blocked:
        return _without_place(blocked)
    plans = dag is None or dag.round.status == RoundStatus.RESOLVED
    if (plans or snapshot.prepared) and (looking := before_planning(snapshot)):
        return looking
    try:
        _bring_up_to_date(snapshot)
    except PlanRefused as refused:
        return hold(str(refused))
    if dag is None or plans:
        try:
            dag = (
                pulling.plan_round(snapshot)
                if workflow.pulls
                else production.plan_round(workflow=workflow, sites=snapshot.sites, priority=request.priority)
            )
        except (NothingToPlan, NothingPlaceable) as nothing:
            return _without_plan(snapshot, nothing)
        except PlanRefused as refused:
            return hold(str(refused))
        snapshot.dag = dag
        # The round is stored before jobs are counted, so at least one of two concurrent requests counts both.
        if (over := quota(snapshot)).blocks:
            return _without_place(over)
    failpoint("plan.recorded")
    submitted = _describe_submission(dag)
    try:
        production.ensure_submitted(dag=dag, priority=request.priority, version=workflow.version)
    except CredentialUnavailable:
        return _without_place(credential(Snapshot(request, now)))
    return Move(S.ACTIVE, submitted)


def _without_place(blocked: Gate) -> Outcome:
    """Hold if only an operator can open the gate; otherwise return to the queue, which uses no capacity."""
    return stop_at(blocked) if blocked.needs_operator else Move(S.QUEUED, blocked.detail)


def _describe_submission(dag: DAG) -> str:
    """Describe the submitted round and its size; for a rescue or resume, the number of unfinished groups."""
    if not production.is_live(dag):
        return f"the DAG of round {dag.round.number} has ended {dag.status}; its results are being evaluated"
    groups = count_groups(round_=dag.round)
    total, name = counted(sum(groups.values()), "group"), f"round {dag.round.number}"
    if dag.kind == DAGKind.FIRST:
        return f"{name} submitted: {total}, {counted(dag.round.jobs, 'job')}"
    return f"{dag.kind} of {name} submitted: {groups.get(GroupStatus.PLANNED, 0)} of {total}"


def _without_plan(snapshot: Snapshot, nothing: NothingToPlan | NothingPlaceable) -> Move:
    """Decide the outcome when no round can be planned."""
    worn = ledger.worn_out_files(workflow=snapshot.workflow)
    if worn:
        return hold(f"{counted(len(worn), 'file')} failed in every round, the first is {worn[0]}", files=worn)
    if isinstance(nothing, NothingPlaceable) and (waiting := gates.data(snapshot)).blocks:
        return Move(S.QUEUED, waiting.detail)
    left = ledger.work_left(workflow=snapshot.workflow)
    if left:
        return hold(f"{left}; the remaining files give no jobs because they have no lumis or are masked")
    return Move(S.ACTIVE, "no work is left to plan; outputs are being finished")


def on_active(request: Request, now: datetime) -> Outcome:
    """Collect outputs of finished groups; when the DAG has ended, decide the next step."""
    workflow, snapshot = request.workflow, Snapshot(request, now)
    held = finishing.hold_for_outputs(snapshot)
    dag = snapshot.dag
    if workflow.pulls:
        held = held or pulling.stopped_lending(snapshot)
        pulling.follow_input(snapshot)
    if dag is not None:
        collect(dag, now)
        if dag.status in IN_QUEUE:
            waiting = _while_running(snapshot, dag)
            return held or waiting
        if dag.round.status != RoundStatus.RESOLVED:
            if dag.status == DAGStatus.REMOVED:
                return _removed(dag)
            if workflow.pulls:
                held = held or pulling.end_round(snapshot, dag)
            elif dag.status != DAGStatus.COMPLETED:
                failed = counted(dag.nodes_failed, "group")
                return Move(S.PARTIAL, f"the DAG ended {dag.status}: {failed} failed")
            else:
                recovering.learn(request, dag, now)
                production.resolve_round(round_=dag.round, now=now)
    if held is not None:
        return held
    left = ledger.work_left(workflow=workflow)
    if left:
        return recovering.hold_for_yield(workflow) or Move(S.QUEUED, f"next round: {left}")
    growing = pulling.wait_for_input(snapshot) if workflow.pulls else None
    return growing or finishing.finish(Snapshot(request, now))  # a new one: outputs were collected


def on_partial(request: Request, now: datetime) -> Outcome:
    """Decide between a rescue and a hold for a DAG that ended with failures."""
    dag = production.newest_dag(workflow=request.workflow)
    if dag is None:
        return hold("this request has no DAG")
    collect(dag, now)
    return recovering.recover(request, dag, now)


def on_stopping(request: Request, now: datetime) -> Outcome:
    """Remove the DAG, its sub-DAGs and jobs; when the queue is empty, collect outputs and resume or hold."""
    snapshot, reason = Snapshot(request, now), request.transitions.latest("id").reason
    dag, blocked = snapshot.dag, gates.blocking_gate(snapshot)
    if dag is not None and blocked:
        if blocked.name != gates.SILENT:
            # Planning may have created the DAG after the stop request, so the stop must be noted again.
            dag = control.request_stop(workflow=request.workflow, reason=reason) or dag
            control.remove_dag(dag=dag, reason=dag.stop_reason or reason)
        return stop_at(blocked)
    if dag is not None:
        leaving = _leaving(dag, dag.stop_reason or reason)
        if leaving is not None:
            return leaving
        collect(dag, now)
        if request.workflow.pulls:
            pulling.end_round(snapshot, dag)
        elif dag.status in ENDED_BY_ITSELF and dag.round.status != RoundStatus.RESOLVED:
            return _ended_before(request, dag, reason, now)
    if request.hold_after_stop:
        before = {"held_before": request.hold_evidence} if request.hold_evidence else {}
        return hold(f"stopped by an operator: {reason}", stop_reason=reason, **before)
    return Move(S.RESUBMITTING, "stopped cleanly; finished groups are kept")


def _ended_before(request: Request, dag: DAG, reason: str, now: datetime) -> Outcome:
    """Handle a DAG that had ended before the stop: its failures are evaluated as usual."""
    if dag.status == DAGStatus.REMOVED:
        return _removed(dag)
    ended = f"the DAG ended {dag.status} before the stop, {counted(dag.nodes_failed, 'group')} failed"
    if request.hold_after_stop:
        recovering.learn(request, dag, now)
        return hold(f"stopped by an operator: {reason}; {ended}", stop_reason=reason, dag=dag.token)
    return Move(S.PILOT_RUNNING if dag.round.kind == RoundKind.PILOT else S.PARTIAL, ended)


def on_resubmitting(request: Request, now: datetime) -> Outcome:
    """Prepare a resume or rescue of the last DAG."""
    dag = production.newest_dag(workflow=request.workflow)
    if dag is None or dag.status == DAGStatus.COMPLETED or dag.round.status == RoundStatus.RESOLVED:
        if dag is not None and dag.round.kind != RoundKind.PILOT:  # a pilot is measured first
            production.resolve_round(round_=dag.round, now=now)
        return Move(S.QUEUED, "nothing to resume; planning the next round")
    if dag.status == DAGStatus.READY:
        return Move(S.QUEUED, "resume prepared")
    kind = DAGKind.RESUME if dag.status == DAGStatus.STOPPED else DAGKind.RESCUE
    production.prepare_dag(parent=dag, kind=kind)
    return Move(S.QUEUED, f"{kind} of {dag.token} prepared")


def _while_running(snapshot: Snapshot, dag: DAG) -> Outcome:
    """Apply edits to the queued DAG if its schedd answers, and wait at the blocking gate."""
    blocked = gates.blocking_gate(snapshot) or gates.running(snapshot)
    if blocked.name != gates.SILENT:
        follow_replicas(snapshot)
        follow_edits(snapshot, dag)
    return stop_at(blocked)


def _removed(dag: DAG) -> Outcome:
    """Hold a request whose DAG was removed from the queue, once its jobs have left."""
    by = dag.events.filter(event_type="remove").order_by("-id").first()
    message = (
        f"the DAG was removed from the queue: {by.detail.get('reason')}" if by else "the DAG was removed"
    )
    counts = {"nodes_done": dag.nodes_done, "nodes_failed": dag.nodes_failed}
    return _leaving(dag, message) or hold(message, dag=str(dag.pk), **counts)


def _leaving(dag: DAG, reason: str) -> Wait | None:
    """Return Wait while jobs or sub-DAGs of the DAG are still in the queue; they would conflict with the
    next DAG.
    """
    left = control.clear_queue(dag=dag, reason=reason)
    why = f"{counted(left, 'job')} of the DAG still in the queue, being removed"
    return Wait(seconds=settings.POLL_INTERVAL_SEC, why=why) if left else None


def _bring_up_to_date(snapshot: Snapshot) -> None:
    """Apply the current bans and bad files to a prepared rescue or resume."""
    if snapshot.prepared and snapshot.dag is not None:
        repair.repair_dag(dag=snapshot.dag, sites=snapshot.sites)


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
check_complete("HANDLERS", HANDLERS, SWEPT)
