"""Deadlines: what happens to a request that stays in one status too long. Never a failure, never a loss."""

from __future__ import annotations

from datetime import datetime

from dags_app.services import control
from requests_app.alerts import raise_alert
from requests_app.lifecycle.outcome import Outcome, hold
from requests_app.models import Request
from requests_app.states import DEADLINES, Overdue, RequestStatus
from wms2_project.metrics import STUCK, count


def overdue(request: Request, now: datetime) -> Outcome | None:
    """The outcome the deadline forces, or None to go on with the handler."""
    deadline = DEADLINES.get(RequestStatus(request.status))
    age = now - request.status_since
    if deadline is None or age <= deadline.after:
        return None
    count(STUCK, request.status)
    told = f"{request.request_name} has been {request.status} for {age.total_seconds() / 3600:.1f} h"
    match deadline.then:
        case Overdue.HOLD:
            return hold(f"{told}; at most {deadline.after} is normal", last_error=request.last_error)
        case Overdue.ALERT:
            raise_alert(request=request, kind=f"stuck_in_{request.status}", message=told)
        case Overdue.CHECK_PILOT:
            raise_alert(request=request, kind="slow_pilot", message=told)
        case Overdue.PING_SCHEDD:
            reachable = control.ping_schedd(workflow=request.workflow)
            kind = "slow_dag" if reachable else "schedd_unreachable"
            raise_alert(request=request, kind=kind, message=told)
        case Overdue.REMOVE_AGAIN:
            told += "; it is removed again, and condor_rm -forcex ends a DAGMan that no longer listens"
            raise_alert(request=request, kind="stop_overdue", message=told)  # also if the schedd is silent
            control.remove_live_dag(workflow=request.workflow, reason="stop is overdue: removed again")
    return None
