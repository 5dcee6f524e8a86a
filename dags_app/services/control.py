"""Steering a DAG in its schedd. Each call may be repeated; none waits for the effect."""

from __future__ import annotations

from django.db.models import F
from django.utils import timezone

from dags_app.adapters import schedd
from dags_app.models import DAG, DAGEvent, Workflow
from dags_app.services.production import newest_dag
from dags_app.states import LIVE_DAG, DAGStatus


def remove_dag(*, dag: DAG, reason: str) -> int:
    """Take the DAG out of the queue so that it can be resumed; answer how many DAGMans that were."""
    if dag.status == DAGStatus.READY:
        return _drop_unsubmitted(dag, reason)
    removed = schedd().remove_dag(dag.token, reason=reason)
    if removed:
        DAGEvent.objects.create(dag=dag, event_type="remove", detail={"reason": reason, "dagmans": removed})
    return removed


def _drop_unsubmitted(dag: DAG, reason: str) -> int:
    """A DAG nobody submitted ends at once. If its token is in a queue after all, it is removed there."""
    removed = schedd().remove_dag(dag.token, reason=reason)
    ready = DAG.objects.filter(pk=dag.pk, status=DAGStatus.READY)
    if ready.update(status=DAGStatus.STOPPED, completed_at=timezone.now(), version=F("version") + 1):
        DAGEvent.objects.create(
            dag=dag,
            event_type="dropped",
            from_status=DAGStatus.READY,
            to_status=DAGStatus.STOPPED,
            detail={"reason": reason},
        )
    return removed


def remove_live_dag(*, workflow: Workflow, reason: str) -> int:
    """Remove whatever DAG of the workflow is live; 0 when none is."""
    dag = newest_dag(workflow=workflow)
    return remove_dag(dag=dag, reason=reason) if dag is not None and dag.status in LIVE_DAG else 0


def request_stop(*, workflow: Workflow, reason: str) -> DAG | None:
    """Note on the live DAG that its end will be a clean stop, not a failure."""
    dag = newest_dag(workflow=workflow)
    if dag is None or dag.status not in LIVE_DAG:
        return None
    DAG.objects.filter(pk=dag.pk).update(
        stop_requested_at=timezone.now(), stop_reason=reason, version=F("version") + 1
    )
    DAGEvent.objects.create(dag=dag, event_type="stop_requested", detail={"reason": reason})
    dag.refresh_from_db()
    return dag


def ping_schedd(*, workflow: Workflow) -> bool:
    """Does the schedd answer that runs this workflow's DAG?"""
    return schedd().ping()
