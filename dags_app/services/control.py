"""Control of DAGs in their schedds. Every call may be repeated; none waits for the effect."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from condor.analysis import MatchAnalysis
from condor.dag_edits import write_landing_sites, write_priority, write_runner_sites
from condor.types import DagmanAd
from dags_app.adapters import schedd
from dags_app.models import DAG, DAGEvent, Workflow
from dags_app.planning.types import SitePool
from dags_app.services.landing_sites import find_landings, usable_now
from dags_app.services.production import newest_dag
from dags_app.services.schedds import is_fenced
from dags_app.services.submission import settle_submission
from dags_app.states import IN_QUEUE, LIVE_DAG, DAGStatus, RoundKind
from wms2_project.access import audit
from wms2_project.errors import Conflict
from wms2_project.failpoints import failpoint
from wms2_project.observation.logs import current_request_id

EDITED = "edited"  # the event of edits applied to a DAG in the queue
MAX_NAMED = 100


class DagAction(StrEnum):
    """Actions on the DAGMans of a DAG."""

    HOLD = "hold"
    RELEASE = "release"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Acted:
    """Number of DAGMans that an action changed, and the state of the DAG in the queue afterwards."""

    action: str
    schedd: str
    dagmans: Annotated[int, "Outer and inner DAGMans it was applied to."]
    outer: Annotated[str, "The outer DAGMan's state; `gone` if it has left the queue."]
    groups_running: int
    groups_held: int
    message: str


def act_on_dag(*, dag: DAG, action: DagAction, actor: str, reason: str) -> Acted:
    """Hold, release or remove the outer and every inner DAGMan. Running jobs continue, except on removal."""
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
        raise Conflict(f"DAG {dag.pk} is {dag.status}", cure="The action needs a DAG in a queue")
    if action is DagAction.REMOVE and dag.status == DAGStatus.HALTED:
        raise Conflict(
            f"DAG {dag.pk} is held, and only a running DAGMan writes its rescue file",
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
    """Remove the DAG from the queue, by default so that it can be resumed; return how many DAGMans."""
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
    """End a DAG that is in no queue."""
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
    """Remove sub-DAGs and jobs that the DAG left in the queue; return how many were found."""
    if not dag.schedd_name or is_fenced(dag.schedd_name):
        return 0
    return schedd(dag.schedd_name).clear_batch(dag.token, reason=reason)


def remove_live_dag(*, workflow: Workflow, reason: str) -> int:
    """Remove the live DAG of the workflow; return how many DAGMans, 0 without a DAG."""
    dag = newest_dag(workflow=workflow)
    return remove_dag(dag=dag, reason=reason) if dag is not None and dag.status in LIVE_DAG else 0


def may_run(*, workflow: Workflow) -> bool:
    """Return whether the DAG is in a queue, or may be because the result of its submission is unknown."""
    dag = newest_dag(workflow=workflow)
    return dag is not None and (
        dag.status in IN_QUEUE or (dag.status == DAGStatus.READY and dag.schedd_name != "")
    )


def request_stop(*, workflow: Workflow, reason: str) -> DAG | None:
    """Mark the live DAG so that its end counts as a clean stop. The first reason is kept."""
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
    """Return whether priority, usable sites or replicas changed since they were applied to the DAG."""
    if dag.applied_version != version or dag.landings_stale_since is not None:
        return True
    return dag.applied_sites is not None and dag.applied_sites != usable_now(dag=dag, sites=sites)


def apply_edits(*, dag: DAG, priority: int, sites: SitePool, version: int) -> list[str]:
    """Apply the workflow's priority and the sites where groups may land to a DAG in the queue.

    Landed groups stay where they are. Return the groups that wait because no site is usable for them.
    """
    directory, port = Path(dag.submit_dir), schedd(dag.schedd_name)
    stale_since = dag.landings_stale_since
    found = find_landings(dag=dag, sites=sites)
    write_priority(directory, priority)  # files first, for jobs that are submitted meanwhile
    write_landing_sites(directory, found.waiting)
    if dag.round.kind == RoundKind.PULL:
        write_runner_sites(directory, found.waiting)
    jobs = port.set_priority(dag.token, priority)
    landings = port.place_landings(dag.token, found.waiting)
    usable = usable_now(dag=dag, sites=sites)
    detail = {"priority": priority, "jobs": jobs, "landings": landings, "sites": usable}
    detail["landings_without_site"] = found.stranded[:MAX_NAMED]
    with transaction.atomic():
        DAG.objects.filter(pk=dag.pk).update(applied_version=version, applied_sites=usable)
        # Replicas that have changed since the landings were decided are applied at the next check
        DAG.objects.filter(pk=dag.pk, landings_stale_since=stale_since).update(landings_stale_since=None)
        _note(dag, EDITED, detail)
    return found.stranded


def explain_idle(*, dag: DAG) -> MatchAnalysis | None:
    """Return HTCondor's analysis of an idle job of the DAG; None if no job is idle."""
    return schedd(dag.schedd_name).explain_idle(dag.token)


def ping_schedd(*, workflow: Workflow) -> bool:
    """Return whether the schedd of the workflow's DAG answers."""
    dag = newest_dag(workflow=workflow)
    return schedd(dag.schedd_name if dag is not None else "").ping()


def _note(dag: DAG, event: str, detail: dict[str, Any]) -> None:
    call = {"call_id": current_request_id()} if current_request_id() else {}
    DAGEvent.objects.create(dag=dag, event_type=event, detail=detail | call)
