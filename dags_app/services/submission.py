"""Exactly-once submission: the row is the intent, its token is JobBatchName, and what is found is adopted."""

from __future__ import annotations

from pathlib import Path

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from condor.dagfile import submit_lock
from condor.types import Presence
from dags_app.adapters import schedd
from dags_app.models import DAG, DAGEvent
from dags_app.states import DAGStatus
from wms2_project.errors import ScheddUnreachable


def ensure_submitted(*, dag: DAG, priority: int) -> DAG:
    """Bring the DAG into the queue once, whatever happened before; answer the row as it stands then."""
    if dag.status != DAGStatus.READY:
        return dag
    # The advisory lock of the caller ends with its database session, a lock on the directory does not:
    # a worker that lost its session in mid-submission still keeps others out.
    with submit_lock(Path(dag.submit_dir)):
        presence, ad = schedd().find_dag(dag.token)
        if presence is Presence.UNKNOWN:
            raise ScheddUnreachable(
                f"cannot tell whether {dag.token} is in the queue", cure="It is asked again"
            )
        how = "adopted"
        cluster = ad.cluster_id if ad is not None else 0
        if presence is Presence.ABSENT:
            cluster = schedd().submit_dag(Path(dag.dag_file_path), dag.token, priority=priority)
            how = "submitted"
    return _record_submission(dag, cluster=cluster, schedd_name=schedd().name, how=how)


def _record_submission(dag: DAG, *, cluster: int, schedd_name: str, how: str) -> DAG:
    with transaction.atomic():
        ready = DAG.objects.filter(pk=dag.pk, status=DAGStatus.READY)
        if ready.update(
            status=DAGStatus.SUBMITTED,
            dagman_cluster_id=cluster,
            schedd_name=schedd_name,
            submitted_at=timezone.now(),
            version=F("version") + 1,
        ):
            DAGEvent.objects.create(
                dag=dag,
                event_type=how,
                from_status=DAGStatus.READY,
                to_status=DAGStatus.SUBMITTED,
                detail={"cluster": cluster},
            )
    dag.refresh_from_db()
    return dag
