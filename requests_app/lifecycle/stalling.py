"""Jobs that get nowhere, seen from above: an alert on their request, and the gate that shows it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.conf import settings

from dags_app.services.hanging import find_hanging
from dags_app.services.stalls import StallKind, Stalls, find_stalls
from requests_app.alerts import close_others, raise_alert
from requests_app.lifecycle.gate import Gate, Verdict
from requests_app.lifecycle.look import Look
from requests_app.models import Request
from requests_app.states import TERMINAL


def report_stalls(*, now: datetime) -> None:
    """An alert while jobs are held or idle for long; it closes when they are seen to be gone."""
    _alert_stalls(find_stalls(now=now), [StallKind.HELD, StallKind.IDLE])


def report_hanging(*, now: datetime) -> None:
    """An alert while running jobs get nowhere; it closes when a look no longer finds them."""
    found = find_hanging(now=now)
    if found is not None:
        _alert_stalls(found, [StallKind.HANGING])


def _alert_stalls(stalls: Stalls, kinds: Collection[StallKind]) -> None:
    unknown = list(Request.objects.filter(workflow__in=stalls.unknown))
    for kind in kinds:
        told = {stall.workflow_id: stall.told for stall in stalls.found if stall.kind is kind}
        stalled = list(Request.objects.filter(workflow__in=told).exclude(status__in=sorted(TERMINAL)))
        for request in stalled:
            raise_alert(request=request, kind=kind, message=told[request.workflow_id])
        close_others(kind=kind, than=[*stalled, *unknown])


def hanging_jobs(look: Look) -> Gate:
    """Do running jobs get nowhere, by the last look of the monitor?"""
    told = look.request.alerts.filter(kind=StallKind.HANGING, closed_at__isnull=True).first()
    if told is None or look.queued_dag is None:
        return Gate("hanging jobs", Verdict.PASS, "no running job is known to hang")
    again = "They are removed and tried again on a free slot of their site"
    return Gate(
        "hanging jobs",
        Verdict.BLOCK,
        told.message,
        {"seen": told.count, "last_seen": told.last_seen_at},
        since=told.created_at,
        remedy=again if settings.HANG_RETRY else "Wait, or condor_rm the job: its node is then tried again",
    )
