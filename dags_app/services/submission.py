"""Exactly-once submission: the row is the intent, its token is JobBatchName, and a found DAG is adopted.

The row names the schedd before anything is sent there, so that after a crash there is one place to search.
Another schedd is used only after the first has answered that it does not know the token, or was fenced.
The schedd is recorded in the directory, too: a database restored from a backup may not have it.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from condor.dag_edits import settle_killed, write_priority, write_rescue
from condor.dagfile import submit_lock
from condor.dagtext import OUTER_DAG
from condor.types import Presence
from dags_app.adapters import schedd
from dags_app.models import DAG, DAGEvent
from dags_app.services import placements
from dags_app.services.credentials import ensure_token
from dags_app.services.schedds import (
    choose_schedd,
    groups_of_next_dag,
    is_fenced,
    open_schedds,
    schedd_rows,
)
from dags_app.states import DAGStatus
from wms2_project.errors import ScheddUnreachable
from wms2_project.failpoints import failpoint

PLACED = "placed"


def ensure_submitted(*, dag: DAG, priority: int, version: int = 0) -> DAG:
    """Submit the DAG exactly once, also after an interrupted attempt; return the current row.

    `version` is the workflow's, as read together with the priority: a later edit is still to be applied.
    Raises CredentialUnavailable if its jobs could not get a token.
    """
    if dag.status != DAGStatus.READY:
        return dag
    # The caller's advisory lock ends with its database session, the lock on the directory does not: a worker
    # that lost its session during a submission still excludes others.
    with submit_lock(Path(dag.submit_dir)):
        dag = _adopted(dag)
        if dag.status != DAGStatus.READY or dag.stop_requested_at is not None:
            return dag
        ensure_token(workflow=dag.workflow, now=timezone.now())
        _place(dag)
        failpoint("submit.placed")
        write_priority(Path(dag.submit_dir), priority)
        port = schedd(dag.schedd_name)
        cluster = port.submit_dag(
            Path(dag.dag_file_path),
            dag.token,
            priority=priority,
            max_groups=groups_of_next_dag(dag.schedd_name),
        )
        failpoint("submit.sent")
        return _record_submission(dag, cluster=cluster, how="submitted", version=version)


def settle_submission(*, dag: DAG) -> DAG:
    """Find out whether a DAG with an unrecorded submission is in a queue; adopt it if so."""
    with submit_lock(Path(dag.submit_dir)):
        return _adopted(dag)


def _adopted(dag: DAG) -> DAG:
    """Return the current row after searching the DAG's schedd for it. The caller holds the lock."""
    dag = DAG.objects.select_related("round", "workflow").get(pk=dag.pk)
    forgotten = placements.read(dag) if dag.status == DAGStatus.READY and not dag.schedd_name else None
    if forgotten is not None:
        _record_place(dag, forgotten.schedd_name)
    if dag.status != DAGStatus.READY or not dag.schedd_name or is_fenced(dag.schedd_name):
        return dag
    since = forgotten.at if forgotten is not None else _placed_at(dag).timestamp()
    presence, ad = schedd(dag.schedd_name).find_dag(dag.token, not_before=since)
    if presence is Presence.UNKNOWN:
        what = f"it is unknown whether {dag.token} is in the queue"
        raise ScheddUnreachable(what, cure="Retried automatically")
    if ad is None:
        if forgotten is not None:  # it may have run so long ago that the history has forgotten it
            _settle_lost(Path(dag.submit_dir))
        return dag
    return _record_submission(dag, cluster=ad.cluster_id, how="adopted")


def _place(dag: DAG) -> None:
    """Choose and record the schedd before anything is sent there."""
    rows = schedd_rows()
    if dag.schedd_name in open_schedds(rows):
        return
    if is_fenced(dag.schedd_name, rows):
        _settle_lost(Path(dag.submit_dir))
    name = choose_schedd(rows)
    placements.write(dag, schedd_name=name, now=timezone.now())
    _record_place(dag, name)


def _record_place(dag: DAG, name: str) -> None:
    dag.schedd_name = name
    with transaction.atomic():
        DAG.objects.filter(pk=dag.pk, status=DAGStatus.READY).update(schedd_name=name)
        DAGEvent.objects.create(
            dag=dag,
            event_type=PLACED,
            from_status=DAGStatus.READY,
            to_status=DAGStatus.READY,
            detail={"schedd": name},
        )


def _placed_at(dag: DAG) -> datetime:
    """Return when its schedd was chosen; nothing was sent there before. Older rows have no such event."""
    placed = dag.events.filter(event_type=PLACED).order_by("-id").first()
    return dag.created_at if placed is None else placed.at


def _settle_lost(directory: Path) -> None:
    """Keep finished groups of a DAG that may have run without a record, so that they do not run again."""
    done = [path.parent.name for path in directory.glob("*/merge_output.json")]
    if not settle_killed(directory, done=done) and done:
        write_rescue(directory / OUTER_DAG, done=done)


def _record_submission(dag: DAG, *, cluster: int, how: str, version: int = 0) -> DAG:
    with transaction.atomic():
        ready = DAG.objects.filter(pk=dag.pk, status=DAGStatus.READY)
        if ready.update(
            status=DAGStatus.SUBMITTED,
            dagman_cluster_id=cluster,
            applied_version=version,
            submitted_at=timezone.now(),
            version=F("version") + 1,
        ):
            DAGEvent.objects.create(
                dag=dag,
                event_type=how,
                from_status=DAGStatus.READY,
                to_status=DAGStatus.SUBMITTED,
                detail={"cluster": cluster, "schedd": dag.schedd_name},
            )
    failpoint("submit.recorded")
    dag.refresh_from_db()
    return dag
