"""Deadlines of statuses. An overdue request is held or reported; it never fails and loses nothing."""

from __future__ import annotations

from datetime import datetime

from dags_app.services import control
from requests_app.lifecycle.outcome import Outcome, hold
from requests_app.models import Request
from requests_app.services.alerts import raise_alert
from requests_app.states import DEADLINES, Overdue, RequestStatus
from wms2_project.observation.counters import STUCK, count


def overdue(request: Request, now: datetime) -> Outcome | None:
    """Return the outcome of an exceeded deadline, or None to run the handler."""
    deadline = DEADLINES.get(RequestStatus(request.status))
    age = now - request.status_since
    if deadline is None or age <= deadline.after:
        return None
    count(STUCK, request.status)
    message = f"{request.request_name} has been {request.status} for {age.total_seconds() / 3600:.1f} h"
    match deadline.then:
        case Overdue.HOLD:
            return hold(f"{message}; the limit is {deadline.after}", last_error=request.last_error)
        case Overdue.ALERT:
            raise_alert(request=request, kind=f"stuck_in_{request.status}", message=message)
        case Overdue.CHECK_PILOT:
            raise_alert(request=request, kind="slow_pilot", message=message)
        case Overdue.PING_SCHEDD:
            reachable = control.ping_schedd(workflow=request.workflow)
            kind = "slow_dag" if reachable else "schedd_unreachable"
            raise_alert(request=request, kind=kind, message=message)
        case Overdue.REMOVE_AGAIN:
            message += "; its DAG is removed again. End an unresponsive DAGMan with condor_rm -forcex"
            raise_alert(request=request, kind="stop_overdue", message=message)  # before calling the schedd
            control.remove_live_dag(workflow=request.workflow, reason="the stop is overdue: removed again")
    return None
