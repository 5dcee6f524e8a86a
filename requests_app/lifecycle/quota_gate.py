"""Quota gate: free quota of the requestor and group for the request's jobs and output."""

from __future__ import annotations

from typing import Any

from django.db.models import Sum

from dags_app.models import DAG
from dags_app.states import LIVE_DAG, GroupStatus
from requests_app.lifecycle.gate_result import Gate, Verdict
from requests_app.lifecycle.gate_result import passed as _passed
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.services import quotas
from requests_app.services.quotas import LIMITS
from requests_app.states import RequestStatus


def quota(snapshot: Snapshot) -> Gate:
    """Block while the request exceeds the free quota of its requestor or group. Queued DAGs are unaffected.

    The number of jobs is known once a round is planned; before that, one job is assumed.
    """
    dag = snapshot.dag if snapshot.dag is not None and snapshot.dag.status in LIVE_DAG else None
    if dag is not None and _is_sent(snapshot, dag):
        return _passed(quotas.GATE, "the jobs are in the queue")
    needed = {"queued_jobs": _jobs_of(dag), "storage_gb": round(quotas.storage_needed_gb(snapshot.request))}
    evidence: dict[str, Any] = {"needed": needed}
    waiting: Gate | None = None
    shares = quotas.shares_of(snapshot.request)
    all_limits = quotas.limits_of(shares)
    usage = quotas.usage_of(shares, now=snapshot.now, without=snapshot.request.pk, of=needed)
    for scope, name in shares:
        limits, used = all_limits[scope, name], usage[scope, name]
        evidence[scope] = {what: {"used": used[what], "limit": limits[what]} for what in needed}
        for what, need in needed.items():
            if need > limits[what]:
                return _alone(snapshot, f"{scope} {name}", what, need, limits[what], evidence)
            if waiting is None and used[what] + need > limits[what]:
                waiting = _full(snapshot, f"{scope} {name}", what, need, used[what], limits[what], evidence)
    return waiting or _passed(quotas.GATE, "the requestor and group have free quota", **evidence)


def _is_sent(snapshot: Snapshot, dag: DAG) -> bool:
    """Return whether the DAG is in the queue, or was sent to a schedd."""
    return snapshot.queued_dag is not None or bool(
        dag.schedd_name and snapshot.request.status != RequestStatus.QUEUED
    )


def _jobs_of(dag: DAG | None) -> int:
    """Return the jobs of the DAG's planned groups; 1 without a DAG."""
    if dag is None:
        return 1
    return dag.round.groups.filter(status=GroupStatus.PLANNED).aggregate(jobs=Sum("jobs"))["jobs"] or 0


def _full(
    snapshot: Snapshot, whose: str, what: str, need: int, used: int, limit: int, evidence: dict[str, Any]
) -> Gate:
    more = f", and this request needs {need:,}" if need > 1 or what != "queued_jobs" else ""
    return Gate(
        quotas.GATE,
        Verdict.BLOCK,
        f"{whose}: {used:,} of {limit:,} {LIMITS[what].unit}{more}",
        evidence,
        since=snapshot.request.status_since,
        remedy="Wait until other requests of the same owner end, or ask an operator for a larger quota",
    )


def _alone(
    snapshot: Snapshot, whose: str, what: str, need: int, limit: int, evidence: dict[str, Any]
) -> Gate:
    return Gate(
        quotas.GATE,
        Verdict.BLOCK,
        f"{whose}: this request alone needs {need:,}, the quota is {limit:,} {LIMITS[what].unit}",
        evidence,
        since=snapshot.request.status_since,
        remedy="Ask an operator for a larger quota and release the request, or submit it in smaller parts",
        needs_operator=True,
    )
