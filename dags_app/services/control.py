"""Steering a DAG in its schedd. Each call may be repeated; none waits for the effect."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from condor.analysis import MatchAnalysis
from condor.dag_edits import write_landing_sites, write_priority
from condor.types import DagmanAd
from dags_app.adapters import schedd
from dags_app.models import DAG, DAGEvent, Workflow
from dags_app.planning.types import SitePool
from dags_app.services.landing_sites import find_landings, usable_now
from dags_app.services.production import newest_dag
from dags_app.services.schedds import is_fenced
from dags_app.services.submission import settle_submission
from dags_app.states import IN_QUEUE, LIVE_DAG, DAGStatus
from wms2_project.access import audit
from wms2_project.errors import Conflict
from wms2_project.failpoints import failpoint
from wms2_project.observation.logs import current_request_id

EDITED = "edited"  # the event of edits applied to a DAG in the queue
MAX_NAMED = 100


class DagAction(StrEnum):
    """What a person can do to the DAGMans of a DAG."""

    HOLD = "hold"
    RELEASE = "release"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Acted:
    """What an action on a DAG reached, and the state of the DAG in the queue afterwards."""

    action: str
    schedd: str
    dagmans: Annotated[int, "Outer and inner DAGMans it was applied to."]
    outer: Annotated[str, "The outer DAGMan's state; `gone` if it has left the queue."]
    groups_running: int
    groups_held: int
    message: str


def act_on_dag(*, dag: DAG, action: DagAction, actor: str, reason: str) -> Acted:
    """Hold, release or remove the outer and every inner DAGMan; jobs that run go on, except on removal."""
    audit.need_reason(reason)
    _check_action(dag, action)
    audit.record(actor=actor, action=f"{action} DAG", target=dag.token, reason=reason)
    port = schedd(dag.schedd_name)
    steer = {
        DagAction.HOLD: port.hold_dag,
        DagAction.RELEASE: port.release_dag,
        DagAction.REMOVE: port.remove_dag,
    }
    dagmans = steer[action](dag.token, reason=f"{actor}: {reason}")
    reached = _reached(action, dag, dagmans, port.query_dags([dag.token]).get(dag.token))
    _note(dag, action, reached | {"reason": reason, "actor": actor})
    message = (
        "{action}: {dagmans} DAGMans at {schedd}; the outer one is {outer}, {groups_running} groups run,"
        " {groups_held} are held."
    )
    return Acted(**reached, message=message.format(**reached))


def _check_action(dag: DAG, action: DagAction) -> None:
    if dag.status not in IN_QUEUE:
        raise Conflict(f"DAG {dag.pk} is {dag.status}", cure="Only a DAG in a queue can be steered")
    if action is DagAction.REMOVE and dag.status == DAGStatus.HALTED:
        raise Conflict(
            f"DAG {dag.pk} is held, and only a running DAGMan writes down what is done",
            cure="Release it first, or stop its request, which does both",
        )


def _reached(action: DagAction, dag: DAG, dagmans: int, ad: DagmanAd | None) -> dict[str, Any]:
    return {
        "action": action.value,
        "schedd": dag.schedd_name,
        "dagmans": dagmans,
        "outer": ad.job_status.name.lower() if ad is not None else "gone",
        "groups_running": ad.groups_running if ad is not None else 0,
        "groups_held": ad.groups_held if ad is not None else 0,
    }


def remove_dag(*, dag: DAG, reason: str, resumable: bool = True) -> int:
    """Take the DAG out of the queue, by default so that it can be resumed; how many DAGMans that were."""
    if dag.status == DAGStatus.READY:
        dag = settle_submission(dag=dag)
        if dag.status == DAGStatus.READY:
            _drop_unsubmitted(dag, reason)
            return 0
    if is_fenced(dag.schedd_name):
        return 0
    removed = schedd(dag.schedd_name).remove_dag(dag.token, reason=reason, resumable=resumable)
    failpoint("stop.removed")
    if removed:
        _note(dag, "remove", {"reason": reason, "dagmans": removed})
    return removed


def _drop_unsubmitted(dag: DAG, reason: str) -> None:
    """A DAG that is in no queue ends at once."""
    ready = DAG.objects.filter(pk=dag.pk, status=DAGStatus.READY)
    if ready.update(status=DAGStatus.STOPPED, completed_at=timezone.now(), version=F("version") + 1):
        DAGEvent.objects.create(
            dag=dag,
            event_type="dropped",
            from_status=DAGStatus.READY,
            to_status=DAGStatus.STOPPED,
            detail={"reason": reason},
        )


def clear_queue(*, dag: DAG, reason: str) -> int:
    """Remove what the DAG's end left in the queue, sub-DAGs and jobs; answer how many there still are."""
    if not dag.schedd_name or is_fenced(dag.schedd_name):
        return 0
    return schedd(dag.schedd_name).clear_batch(dag.token, reason=reason)


def remove_live_dag(*, workflow: Workflow, reason: str) -> int:
    """Remove whatever DAG of the workflow is live; 0 when none is."""
    dag = newest_dag(workflow=workflow)
    return remove_dag(dag=dag, reason=reason) if dag is not None and dag.status in LIVE_DAG else 0


def may_run(*, workflow: Workflow) -> bool:
    """Is its DAG in a queue, or may it be: sent there, and nobody recorded what came of it?"""
    dag = newest_dag(workflow=workflow)
    return dag is not None and (
        dag.status in IN_QUEUE or (dag.status == DAGStatus.READY and dag.schedd_name != "")
    )


def request_stop(*, workflow: Workflow, reason: str) -> DAG | None:
    """Note on the live DAG that its end will be a clean stop, not a failure. The first reason stands."""
    dag = newest_dag(workflow=workflow)
    if dag is None or dag.status not in LIVE_DAG:
        return None
    with transaction.atomic():
        unnoted = DAG.objects.filter(pk=dag.pk, stop_requested_at__isnull=True)
        if unnoted.update(stop_requested_at=timezone.now(), stop_reason=reason, version=F("version") + 1):
            _note(dag, "stop_requested", {"reason": reason})
    dag.refresh_from_db()
    return dag


def lags_behind(*, dag: DAG, sites: SitePool, version: int) -> bool:
    """Have the priority, the usable sites or replicas changed since they were last applied to the DAG?"""
    if dag.applied_version != version or dag.landings_stale_since is not None:
        return True
    return dag.applied_sites is not None and dag.applied_sites != usable_now(dag=dag, sites=sites)


def apply_edits(*, dag: DAG, priority: int, sites: SitePool, version: int) -> list[str]:
    """Apply the workflow's priority, and where its groups may land now, to the jobs of a DAG in the queue.

    Landed groups stay where they are. Return the groups that may land nowhere: they wait until they may.
    """
    directory, port = Path(dag.submit_dir), schedd(dag.schedd_name)
    stale_since = dag.landings_stale_since
    found = find_landings(dag=dag, sites=sites)
    write_priority(directory, priority)  # files first: what is submitted meanwhile has them already
    write_landing_sites(directory, found.waiting)
    jobs = port.set_priority(dag.token, priority)
    landings = port.place_landings(dag.token, found.waiting)
    usable = usable_now(dag=dag, sites=sites)
    told = {"priority": priority, "jobs": jobs, "landings": landings, "sites": usable}
    told["landings_without_site"] = found.stranded[:MAX_NAMED]
    with transaction.atomic():
        DAG.objects.filter(pk=dag.pk).update(applied_version=version, applied_sites=usable)
        # Replicas that have changed since the landings were decided are applied at the next check
        DAG.objects.filter(pk=dag.pk, landings_stale_since=stale_since).update(landings_stale_since=None)
        _note(dag, EDITED, told)
    return found.stranded


def explain_idle(*, dag: DAG) -> MatchAnalysis | None:
    """Why an idle job of the DAG is idle, in HTCondor's own words; None if none is."""
    return schedd(dag.schedd_name).explain_idle(dag.token)


def ping_schedd(*, workflow: Workflow) -> bool:
    """Does the schedd answer that runs this workflow's DAG?"""
    dag = newest_dag(workflow=workflow)
    return schedd(dag.schedd_name if dag is not None else "").ping()


def _note(dag: DAG, event: str, detail: dict[str, Any]) -> None:
    call = {"call_id": current_request_id()} if current_request_id() else {}
    DAGEvent.objects.create(dag=dag, event_type=event, detail=detail | call)
