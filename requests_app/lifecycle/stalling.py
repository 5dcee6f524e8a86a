"""Alerts and gate for jobs that make no progress."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.conf import settings

from dags_app.services.hanging import find_hanging
from dags_app.services.stalls import StallKind, Stalls, find_stalls
from requests_app.lifecycle.gate_result import Gate, Verdict
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.services.alerts import Kept, raise_alert
from requests_app.states import TERMINAL


def report_stalls(*, now: datetime) -> Kept:
    """Open an alert while jobs are held or idle for too long; return the alerts that stay open."""
    return _alert_stalls(find_stalls(now=now), [StallKind.HELD, StallKind.IDLE])


def report_hanging(*, now: datetime) -> Kept:
    """Open an alert while running jobs make no progress; return the alerts that stay open."""
    found = find_hanging(now=now)
    return {} if found is None else _alert_stalls(found, [StallKind.HANGING])


def _alert_stalls(stalls: Stalls, kinds: Collection[StallKind]) -> Kept:
    kept: dict[str, Collection[Request]] = {}
    unknown = list(Request.objects.filter(workflow__in=stalls.unknown))
    for kind in kinds:
        messages = {stall.workflow_id: stall.message for stall in stalls.found if stall.kind is kind}
        stalled = list(Request.objects.filter(workflow__in=messages).exclude(status__in=sorted(TERMINAL)))
        for request in stalled:
            raise_alert(request=request, kind=kind, message=messages[request.workflow_id])
        kept[kind] = [*stalled, *unknown]
    return kept


def hanging_jobs(snapshot: Snapshot) -> Gate:
    """Block while the monitor reports running jobs without progress."""
    alert = snapshot.request.alerts.filter(kind=StallKind.HANGING, closed_at__isnull=True).first()
    if alert is None or snapshot.queued_dag is None:
        return Gate("hanging jobs", Verdict.PASS, "no running job hangs")
    again = "The jobs are removed and retried in a free slot of their site automatically"
    return Gate(
        "hanging jobs",
        Verdict.BLOCK,
        alert.message,
        {"seen": alert.count, "last_seen": alert.last_seen_at},
        since=alert.created_at,
        remedy=again if settings.HANG_RETRY else "Wait, or remove the job with condor_rm: DAGMan retries it",
    )
