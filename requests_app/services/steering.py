"""Stopping a request cleanly, ending it."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from dags_app.services import control
from requests_app.models import Request
from requests_app.services.preconditions import check_action
from requests_app.states import RequestStatus as S
from requests_app.transitions import transition

NOTHING_RUNS = (S.SUBMITTED, S.QUEUED, S.PARTIAL, S.RESUBMITTING)


def stop_request(
    *, request: Request, actor: str, reason: str, expected_version: int | None = None, hold: bool = False
) -> Request:
    """Stop cleanly: jobs leave the queue, finished groups stay. It resumes by itself unless `hold`.

    Where nothing runs, as between two rounds, there is nothing to stop: the request is only held.
    """
    check_action(request, reason=reason, expected_version=expected_version)
    with transaction.atomic():
        if request.status in NOTHING_RUNS:
            evidence = {"reason": reason, "stopped_by": actor}
            changes: dict[str, Any] = {"hold_evidence": evidence, "last_error": reason}
            return transition(request=request, to=S.HELD, reason=reason, actor=actor, changes=changes)
        transition(
            request=request, to=S.STOPPING, reason=reason, actor=actor, changes={"hold_after_stop": hold}
        )
        control.request_stop(workflow=request.workflow, reason=reason)
    return request


def abort_request(
    *, request: Request, actor: str, reason: str, expected_version: int | None = None
) -> Request:
    """Cancel for good. The watcher removes what runs; registered outputs stay as they are."""
    check_action(request, reason=reason, expected_version=expected_version)
    with transaction.atomic():
        transition(request=request, to=S.ABORTED, reason=reason, actor=actor)
        control.request_stop(workflow=request.workflow, reason=reason)
    return request
