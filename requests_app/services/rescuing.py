"""Rescue of a DAG by an operator."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from dags_app.failures.records import is_judged
from dags_app.models import DAG
from dags_app.services import production
from dags_app.states import FAILED_DAG, DAGKind, RoundStatus
from requests_app.lifecycle.recovering import learn
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from requests_app.transitions import transition
from wms2_project.access import audit
from wms2_project.errors import Conflict


def rescue_dag(*, dag: DAG, actor: str, reason: str) -> DAG:
    """Queue the held request with a rescue of this DAG. Finished nodes are kept; the others are retried."""
    audit.need_reason(reason)
    request = Request.objects.select_related("workflow").get(workflow=dag.workflow_id)
    newest = production.newest_dag(workflow=request.workflow)
    if newest is None or newest.pk != dag.pk:
        raise Conflict(f"DAG {dag.pk} is not the latest of {request}", cure="Rescue the latest DAG")
    if production.is_live(dag):
        raise Conflict(f"DAG {dag.pk} is {dag.status}", cure="Remove the DAG first, or wait until it ends")
    if dag.round.status == RoundStatus.RESOLVED:
        raise Conflict(
            f"round {dag.round.number} is resolved",
            cure="Release the request: the remaining work is planned again",
        )
    if request.status != S.HELD:
        raise Conflict(
            f"{request} is {request.status}, not held", cure="Only DAGs of held requests can be rescued"
        )
    if dag.status in FAILED_DAG and not is_judged(dag=dag):  # the DAG ended while the request was held
        learn(request, dag, timezone.now())
    with transaction.atomic():
        changes = {"hold_evidence": None, "hold_after_stop": False}
        transition(request=request, to=S.QUEUED, reason=reason, actor=actor, changes=changes)
        rescue = production.prepare_dag(parent=dag, kind=DAGKind.RESCUE)
        audit.record(actor=actor, action="rescue DAG", target=dag.token, reason=reason, new=rescue.token)
    return rescue
