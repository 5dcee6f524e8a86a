"""Deadlines of steps: an alert on the request of each step that takes longer than its template allows."""

from __future__ import annotations

from datetime import datetime

from chains_app.models import ChainStep
from chains_app.states import StepStatus
from requests_app.services.alerts import close_others, raise_alert

KIND = "chain_step_deadline"


def raise_overdue(*, now: datetime) -> int:
    """Open or update an alert for every overdue step and close those that are over; return how many."""
    rows = ChainStep.objects.filter(
        status__in=[StepStatus.RUNNING, StepStatus.HELD], deadline_at__lte=now, request__isnull=False
    ).select_related("request", "chain__template")
    requests = []
    for row in rows:
        if row.request is None or row.deadline_at is None:
            continue
        message = (
            f"{row.chain} ({row.chain.template}): step {row} should have ended by {row.deadline_at:%F %R} UTC"
        )
        raise_alert(request=row.request, kind=KIND, message=message)
        requests.append(row.request)
    close_others({KIND: requests})
    return len(requests)
