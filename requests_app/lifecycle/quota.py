"""The gate of quotas: do its requestor and group have room for the request's jobs and output?"""

from __future__ import annotations

from typing import Any

from django.db.models import Sum

from dags_app.models import DAG
from dags_app.states import LIVE_DAG, GroupStatus
from requests_app import quotas
from requests_app.lifecycle.gate import Gate, Verdict
from requests_app.lifecycle.gate import passed as _passed
from requests_app.lifecycle.look import Look
from requests_app.quotas import LIMITS
from requests_app.states import RequestStatus


def quota(look: Look) -> Gate:
    """Compare what the request needs with what its quotas leave. A DAG that is in the queue stays there.

    How many jobs a request has is known once its round is planned; before that it needs one at least.
    """
    dag = look.dag if look.dag is not None and look.dag.status in LIVE_DAG else None
    if dag is not None and _is_sent(look, dag):
        return _passed(quotas.GATE, "its jobs are in the queue")
    needed = {"queued_jobs": _jobs_of(dag), "storage_gb": round(quotas.storage_needed_gb(look.request))}
    evidence: dict[str, Any] = {"needed": needed}
    waiting: Gate | None = None
    for scope, name in quotas.shares_of(look.request):
        limits = quotas.limits_of(scope, [name])[name]
        used = quotas.usage_of(scope, [name], now=look.now, without=look.request.pk, of=needed)[name]
        evidence[scope] = {what: {"used": used[what], "limit": limits[what]} for what in needed}
        for what, need in needed.items():
            if need > limits[what]:
                return _alone(look, f"{scope} {name}", what, need, limits[what], evidence)
            if waiting is None and used[what] + need > limits[what]:
                waiting = _full(look, f"{scope} {name}", what, need, used[what], limits[what], evidence)
    return waiting or _passed(quotas.GATE, "its requestor and group have room", **evidence)


def _is_sent(look: Look, dag: DAG) -> bool:
    """Is the DAG in the queue, or was it sent to a schedd and must be found there first?"""
    return look.queued_dag is not None or bool(
        dag.schedd_name and look.request.status != RequestStatus.QUEUED
    )


def _jobs_of(dag: DAG | None) -> int:
    """Jobs of the groups that a DAG which is made will run; 1 while none is made."""
    if dag is None:
        return 1
    return dag.round.groups.filter(status=GroupStatus.PLANNED).aggregate(jobs=Sum("jobs"))["jobs"] or 0


def _full(
    look: Look, whose: str, what: str, need: int, used: int, limit: int, evidence: dict[str, Any]
) -> Gate:
    more = f", and this request needs {need:,}" if need > 1 or what != "queued_jobs" else ""
    return Gate(
        quotas.GATE,
        Verdict.BLOCK,
        f"{whose}: {used:,} of {limit:,} {LIMITS[what].unit}{more}",
        evidence,
        since=look.request.status_since,
        remedy="Wait until others of theirs end, or ask an operator for a larger quota",
    )


def _alone(look: Look, whose: str, what: str, need: int, limit: int, evidence: dict[str, Any]) -> Gate:
    return Gate(
        quotas.GATE,
        Verdict.BLOCK,
        f"{whose}: this request alone needs {need:,} of {limit:,} {LIMITS[what].unit}",
        evidence,
        since=look.request.status_since,
        remedy="Ask an operator for a larger quota and release it, or submit it in smaller parts",
        by_hand=True,
    )
