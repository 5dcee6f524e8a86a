"""One handler per status: look at the world, do the next idempotent thing, say what should happen.

Handlers call services of the layers below and never write a request's status; each may be repeated
at any point, because every effect they cause is find-or-create.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from django.conf import settings

from dags_app.models import DAG
from dags_app.planning.estimates import BadPilotReport
from dags_app.services import control, input_files, ledger, locations, pilot, production, repairing
from dags_app.services.collecting import count_groups
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
from requests_app import admission, quotas
from requests_app.lifecycle import finishing, gates, recovering, yielding
from requests_app.lifecycle.edits import follow_edits
from requests_app.lifecycle.gate import Gate
from requests_app.lifecycle.look import Look
from requests_app.lifecycle.outcome import Move, Outcome, Wait, hold, stop_at
from requests_app.lifecycle.ownership import ownership
from requests_app.lifecycle.quota import quota
from requests_app.models import Request
from requests_app.services.collecting import collect
from requests_app.states import SWEPT
from requests_app.states import RequestStatus as S
from wms2_project.errors import ServiceUnavailable
from wms2_project.failpoints import failpoint
from wms2_project.tables import check_complete
from wms2_project.waiting import DATA
from wms2_project.words import counted

logger = logging.getLogger(__name__)
Handler = Callable[[Request, datetime], Outcome]


def on_submitted(request: Request, now: datetime) -> Outcome:
    """Find out whether the outputs are ours to write, what the input is, and where."""
    look = Look(request, now)
    if ownership(look).blocks:
        outputs.check_claims(workflow=request.workflow, now=now)
        if (owned := ownership(look)).blocks:
            return stop_at(owned)
    known = gates.validation(look)
    if not known.blocks:
        return Move(S.QUEUED, known.detail)
    try:
        found = input_files.resolve_input(workflow=request.workflow, now=now, seconds=settings.INPUT_LOOK_SEC)
    except input_files.NoInput as problem:
        return hold(str(problem), input_dataset=request.workflow.input_dataset)
    if found.blocks_left:
        return Wait(0, f"{counted(found.blocks_left, 'block')} of the input are still to be read", known.name)
    locations.note_waiting(workflow=request.workflow, sites=look.sites, now=now)
    return Move(S.QUEUED, f"input resolved: {found.files} files, {found.events} events")


def on_queued(request: Request, now: datetime) -> Outcome:
    """Wait for a turn; then measure first, unless there is nothing to measure or no time to."""
    reading = _read_input(Look(request, now))
    if reading is not None:
        return reading
    look = Look(request, now)  # anew: files may be elsewhere now
    blocked = gates.in_the_way(look)
    if blocked:
        if not look.turn.admitted:  # until its turn comes, nobody has to decide anything
            blocked = replace(blocked, by_hand=False)
        return stop_at(blocked, seconds=_pause_at(blocked, look))
    if pilot.is_wanted(workflow=request.workflow, urgent=request.urgent):
        return Move(S.PILOT_RUNNING, f"{look.turn.why}; a pilot measures first")
    return Move(S.PLANNING, look.turn.why)


def _pause_at(gate: Gate, look: Look) -> float:
    """Seconds until the gate is asked again; whatever may open it earlier makes the request due."""
    if gate.name == DATA:
        return float(settings.LOCATION_MAX_AGE_SEC)
    if gate.name == quotas.GATE:  # room for it makes it due
        return admission.RAREST_LOOK_SEC
    if gate.opens_at is None:
        return admission.next_look_sec(look.turn.behind)
    return min(max((gate.opens_at - look.now).total_seconds(), 0.0), admission.RAREST_LOOK_SEC)


def _read_input(look: Look) -> Outcome | None:
    """Check outputs and input of a request released before that, or look for replicas; None if done."""
    workflow = look.workflow
    if ownership(look).blocks or gates.validation(look).blocks:
        resolved = on_submitted(look.request, look.now)
        return None if isinstance(resolved, Move) and resolved.to is S.QUEUED else resolved
    waits = workflow.unplaced_since is not None or look.awaits_input
    if not waits or locations.are_fresh(workflow=workflow, now=look.now):
        return None
    left = _look_up(look)  # goes on after a pause while nothing can be placed: it must not fill a worker
    return None if gates.data(look).blocks else left


def _look_up(look: Look) -> Wait | None:
    """Look the unfinished files up again; Wait while there are more of them than fit into a task."""
    workflow = look.workflow
    left = locations.refresh_locations(workflow=workflow, now=look.now, seconds=settings.INPUT_LOOK_SEC)
    locations.note_waiting(workflow=workflow, sites=look.sites, now=look.now)
    told = f"{counted(left, 'file')} are still to be looked up in Rucio"
    return Wait(0, told, DATA) if left else None


def _before_planning(look: Look) -> Wait | None:
    """The same before a round is planned; what was known before does while Rucio is away."""
    try:
        return _look_up(look)
    except ServiceUnavailable as error:
        if look.workflow.located_at is None:
            raise
        logger.warning("planned with the locations of %s: %s", look.workflow.located_at, error)
        locations.note_waiting(workflow=look.workflow, sites=look.sites, now=look.now)
        return None


def on_pilot_running(request: Request, now: datetime) -> Outcome:
    """Run the pilot round; plan the rest when its numbers are in."""
    workflow, look = request.workflow, Look(request, now)
    dag = look.dag
    wanted = pilot.is_wanted(workflow=workflow, urgent=request.urgent)
    again = dag is not None and dag.round.status == RoundStatus.RESOLVED and wanted
    if dag is None or again or dag.status == DAGStatus.READY:
        blocked = gates.in_the_way(look)
        if blocked:
            return stop_at(blocked)
        try:
            _bring_up_to_date(look)
            if (dag is None or again) and (looking := _before_planning(look)):
                return looking
            dag = pilot.ensure_submitted(workflow=workflow, sites=look.sites, priority=request.priority)
        except NothingPlaceable as refused:
            return Move(S.PLANNING, str(refused))  # from where it goes back to wait
        except PlanRefused as refused:
            return hold(str(refused))
        look.dag = dag
    collect(dag, now)
    if dag.status in IN_QUEUE:
        return _while_running(look, dag)
    if dag.status == DAGStatus.COMPLETED:
        try:
            estimate = pilot.record_measurement(workflow=workflow, round_=dag.round)
        except BadPilotReport as report:
            return hold(str(report), dag=dag.token, submit_dir=dag.submit_dir)
        production.resolve_round(round_=dag.round, now=now)
        recovering.blame_pilot_sites(dag, now)
        if pilot.is_wanted(workflow=workflow, urgent=request.urgent):
            return Wait(seconds=0, why="the pilot's numbers still change; a larger one measures on")
        return yielding.hold_for_yield(workflow) or Move(
            S.PLANNING,
            f"pilot measured {estimate.time_per_event_sec:.3g} s and {estimate.size_per_event_kb:.3g} kB"
            f" per event, {estimate.memory_mb} MB",
        )
    if dag.status == DAGStatus.REMOVED:
        return _removed(dag)
    return recovering.recover_pilot(request, dag, now)


def on_planning(request: Request, now: datetime) -> Outcome:
    """Plan the next round (or take the prepared DAG) and bring it into the queue exactly once."""
    workflow, look = request.workflow, Look(request, now)
    dag, blocked = look.dag, gates.in_the_way(look)
    if blocked:
        return _without_place(blocked)
    try:
        _bring_up_to_date(look)
    except PlanRefused as refused:
        return hold(str(refused))
    if dag is None or dag.round.status == RoundStatus.RESOLVED:
        if looking := _before_planning(look):
            return looking
        try:
            dag = production.plan_round(workflow=workflow, sites=look.sites, priority=request.priority)
        except (NothingToPlan, NothingPlaceable) as nothing:
            return _without_plan(look, nothing)
        except PlanRefused as refused:
            return hold(str(refused))
        look.dag = dag
        # The round is stored before it is counted: of two at once at least one counts the other's jobs too.
        if (over := quota(look)).blocks:
            return _without_place(over)
    failpoint("plan.recorded")
    submitted = _describe_submission(dag)
    production.ensure_submitted(dag=dag, priority=request.priority, version=workflow.version)
    return Move(S.ACTIVE, submitted)


def _without_place(blocked: Gate) -> Outcome:
    """Hold where only a person can open the gate; else wait in the queue, where it takes no place."""
    return stop_at(blocked) if blocked.by_hand else Move(S.QUEUED, blocked.detail)


def _describe_submission(dag: DAG) -> str:
    """Name the round and its size; of a rescue or a resume, how many of its groups still have work."""
    if not production.is_live(dag):
        return f"the DAG of round {dag.round.number} has ended {dag.status}: it is judged now"
    groups = count_groups(round_=dag.round)
    total, name = counted(sum(groups.values()), "group"), f"round {dag.round.number}"
    if dag.kind == DAGKind.FIRST:
        return f"{name} submitted: {total}, {counted(dag.round.jobs, 'job')}"
    return f"{dag.kind} of {name} submitted: {groups.get(GroupStatus.PLANNED, 0)} of {total}"


def _without_plan(look: Look, nothing: NothingToPlan | NothingPlaceable) -> Move:
    """What becomes of a request of which no round can be made now."""
    worn = ledger.worn_out_files(workflow=look.workflow)
    if worn:
        return hold(f"{len(worn)} files failed in every round, the first is {worn[0]}", files=worn)
    if isinstance(nothing, NothingPlaceable) and (waiting := gates.data(look)).blocks:
        return Move(S.QUEUED, waiting.detail)
    left = ledger.work_left(workflow=look.workflow)
    if left:
        return hold(f"{left}, and no job can be made of the rest: files without lumis, or masked")
    return Move(S.ACTIVE, "nothing is left to plan; outputs are being finished")


def on_active(request: Request, now: datetime) -> Outcome:
    """Collect what finished; when the DAG has ended, decide what the request still needs."""
    workflow, look = request.workflow, Look(request, now)
    held = finishing.hold_for_outputs(look)
    dag = look.dag
    if dag is not None:
        collect(dag, now)
        if dag.status in IN_QUEUE:
            waiting = _while_running(look, dag)
            return held or waiting
        if dag.round.status != RoundStatus.RESOLVED:
            if dag.status == DAGStatus.REMOVED:
                return _removed(dag)
            if dag.status != DAGStatus.COMPLETED:
                failed = counted(dag.nodes_failed, "group")
                return Move(S.PARTIAL, f"the DAG ended {dag.status}: {failed} failed")
            recovering.learn(request, dag, now)
            production.resolve_round(round_=dag.round, now=now)
    if held is not None:
        return held
    left = ledger.work_left(workflow=workflow)
    if left:
        return yielding.hold_for_yield(workflow) or Move(S.QUEUED, f"next round: {left}")
    return finishing.finish(look)


def on_partial(request: Request, now: datetime) -> Outcome:
    """The DAG ended with failures: rescue what a machine should rescue, leave the rest to a person."""
    dag = production.newest_dag(workflow=request.workflow)
    if dag is None:
        return hold("the DAG of this request is gone")
    collect(dag, now)
    return recovering.recover(request, dag, now)


def on_stopping(request: Request, now: datetime) -> Outcome:
    """Wait until nothing of the DAG is in the queue, sub-DAGs and jobs included, then keep what is done."""
    look, told = Look(request, now), request.transitions.latest("id").reason
    dag, blocked = look.dag, gates.in_the_way(look)
    if dag is not None and blocked:
        if blocked.name != gates.SILENT:
            # Planning may have made the DAG after the stop was asked for: then nothing is noted on it yet.
            dag = control.request_stop(workflow=request.workflow, reason=told) or dag
            control.remove_dag(dag=dag, reason=dag.stop_reason or told)
        return stop_at(blocked)
    if dag is not None:
        leaving = _leaving(dag, dag.stop_reason or told)
        if leaving is not None:
            return leaving
        collect(dag, now)
        if dag.status in ENDED_BY_ITSELF and dag.round.status != RoundStatus.RESOLVED:
            return _ended_before(request, dag, told, now)
    if request.hold_after_stop:
        before = {"held_before": request.hold_evidence} if request.hold_evidence else {}
        return hold(f"stopped by an operator: {told}", stop_reason=told, **before)
    return Move(S.RESUBMITTING, "stopped cleanly; finished groups are kept")


def _ended_before(request: Request, dag: DAG, told: str, now: datetime) -> Outcome:
    """The stop came too late to be the DAG's end: what failed is judged as if nobody had asked for it."""
    if dag.status == DAGStatus.REMOVED:
        return _removed(dag)
    ended = f"the DAG had ended {dag.status} before the stop, {counted(dag.nodes_failed, 'group')} had failed"
    if request.hold_after_stop:
        recovering.learn(request, dag, now)
        return hold(f"stopped by an operator: {told}; {ended}", stop_reason=told, dag=dag.token)
    return Move(S.PILOT_RUNNING if dag.round.kind == RoundKind.PILOT else S.PARTIAL, ended)


def on_resubmitting(request: Request, now: datetime) -> Outcome:
    """Prepare the DAG that goes on where the last one ended."""
    dag = production.newest_dag(workflow=request.workflow)
    if dag is None or dag.status == DAGStatus.COMPLETED or dag.round.status == RoundStatus.RESOLVED:
        if dag is not None and dag.round.kind == RoundKind.PRODUCTION:  # a pilot is measured first
            production.resolve_round(round_=dag.round, now=now)
        return Move(S.QUEUED, "nothing to resume from: the next round is planned")
    if dag.status == DAGStatus.READY:
        return Move(S.QUEUED, "prepared")
    kind = DAGKind.RESUME if dag.status == DAGStatus.STOPPED else DAGKind.RESCUE
    production.prepare_dag(parent=dag, kind=kind)
    return Move(S.QUEUED, f"{kind} of {dag.token} prepared")


def _while_running(look: Look, dag: DAG) -> Outcome:
    """The DAG is in the queue: bring edits to its jobs if its schedd answers, and say what is waited for."""
    blocked = gates.in_the_way(look) or gates.running(look)
    if blocked.name != gates.SILENT:
        follow_edits(look, dag)
    return stop_at(blocked)


def _removed(dag: DAG) -> Outcome:
    """Somebody took the DAG out of the queue: whoever did that has to say what comes next."""
    by = dag.events.filter(event_type="remove").order_by("-id").first()
    told = f"the DAG was removed from the queue: {by.detail.get('reason')}" if by else "the DAG was removed"
    counts = {"nodes_done": dag.nodes_done, "nodes_failed": dag.nodes_failed}
    return _leaving(dag, told) or hold(told, dag=str(dag.pk), **counts)


def _leaving(dag: DAG, reason: str) -> Wait | None:
    """Wait while jobs or sub-DAGs outlive the DAG in the queue: what goes on next would meet them there."""
    left = control.clear_queue(dag=dag, reason=reason)
    why = f"{left} jobs are leaving the queue"
    return Wait(seconds=settings.POLL_INTERVAL_SEC, why=why) if left else None


def _bring_up_to_date(look: Look) -> None:
    """A rescue or resume about to be submitted avoids what must be avoided by now."""
    if look.prepared and look.dag is not None:
        repairing.repair_dag(dag=look.dag, sites=look.sites)


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
