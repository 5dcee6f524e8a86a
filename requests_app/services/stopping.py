"""Stop and abort of requests."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from dags_app.services import control
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from requests_app.states import may_move
from requests_app.transitions import check_action, transition
from wms2_project.errors import Conflict

WAITS = (
    S.SUBMITTED,
    S.QUEUED,
    S.PARTIAL,
    S.RESUBMITTING,
)  # no DAG runs, except one left running by a hold


def can_stop(request: Request) -> bool:
    """Return whether a stop would have an effect."""
    if request.status == S.HELD:
        return control.may_run(workflow=request.workflow)
    return request.status in WAITS or may_move(S(request.status), S.STOPPING)


def stop_request(
    *, request: Request, actor: str, reason: str, expected_version: int | None = None, hold: bool = False
) -> Request:
    """Stop the request cleanly: jobs are removed, finished groups kept. It resumes unless `hold`.

    If nothing runs, as between two rounds, the request is only held. A request that is held while its jobs
    run
    stays held.
    """
    check_action(request, reason=reason, expected_version=expected_version)
    running, held = control.may_run(workflow=request.workflow), request.status == S.HELD
    if held and not running:
        raise Conflict(
            f"{request.request_name} is held and has no running jobs",
            cure="Release, fail or abort the request",
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
    """Abort the request. The watcher removes running DAGs; registered outputs are kept."""
    check_action(request, reason=reason, expected_version=expected_version)
    with transaction.atomic():
        transition(request=request, to=S.ABORTED, reason=reason, actor=actor)
        control.request_stop(workflow=request.workflow, reason=reason)
    return request
