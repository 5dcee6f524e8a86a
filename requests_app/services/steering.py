"""Stopping a request cleanly, ending it."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from dags_app.services import control
from requests_app.models import Request
from requests_app.services.preconditions import check_action
from requests_app.states import RequestStatus as S
from requests_app.states import may_move
from requests_app.transitions import transition
from wms2_project.errors import Conflict

WAITS = (
    S.SUBMITTED,
    S.QUEUED,
    S.PARTIAL,
    S.RESUBMITTING,
)  # no DAG runs, unless it was left running by a hold


def can_stop(request: Request) -> bool:
    """Would a stop change anything?"""
    if request.status == S.HELD:
        return control.may_run(workflow=request.workflow)
    return request.status in WAITS or may_move(S(request.status), S.STOPPING)


def stop_request(
    *, request: Request, actor: str, reason: str, expected_version: int | None = None, hold: bool = False
) -> Request:
    """Stop cleanly: jobs leave the queue, finished groups stay. It resumes by itself unless `hold`.

    Where nothing runs, as between two rounds, there is nothing to stop: the request is only held. One that
    is held while its jobs run stays held.
    """
    check_action(request, reason=reason, expected_version=expected_version)
    running, held = control.may_run(workflow=request.workflow), request.status == S.HELD
    if held and not running:
        raise Conflict(
            f"{request.request_name} is held, and nothing of it runs", cure="Release, fail or abort it"
        )
    changes: dict[str, Any]
    with transaction.atomic():
        if request.status in WAITS and not running:
            evidence = {"reason": reason, "stopped_by": actor}
            changes = {"hold_evidence": evidence, "last_error": reason}
            return transition(request=request, to=S.HELD, reason=reason, actor=actor, changes=changes)
        changes = {"hold_after_stop": hold or held}
        transition(request=request, to=S.STOPPING, reason=reason, actor=actor, changes=changes)
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
