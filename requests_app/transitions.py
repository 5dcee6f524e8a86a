"""The only writer of a request's status. Every change is legal, has an actor and a reason, and is logged."""

from __future__ import annotations

import logging
from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from requests_app import admission
from requests_app.models import Callback, Request, StatusTransition
from requests_app.services import quotas
from requests_app.services.alerts import close_alerts
from requests_app.states import TAKES_CAPACITY, TERMINAL, TRANSITIONS, RequestStatus, may_move
from wms2_project.access import audit
from wms2_project.changes import announce_requests
from wms2_project.errors import IllegalTransition, StaleVersion
from wms2_project.observation.logs import current_request_id

logger = logging.getLogger(__name__)
GIVEN_UP = (RequestStatus.FAILED, RequestStatus.ABORTED)  # these keep the last error


def begin(*, request: Request, status: RequestStatus, reason: str, actor: str) -> Request:
    """Store a new request in its first status."""
    now = timezone.now()
    with transaction.atomic(savepoint=False):
        request.status, request.status_since = status, now
        request.save(force_insert=True)
        _record(request, from_status="", reason=reason, actor=actor)
    return request


def transition(
    *, request: Request, to: RequestStatus, reason: str, actor: str, changes: dict[str, Any] | None = None
) -> Request:
    """Change the status and the columns in `changes`, or raise and change nothing.

    Compare-and-set on the version the caller read: a decision on an older state raises StaleVersion.
    """
    current = RequestStatus(request.status)
    if not may_move(current, to):
        legal = ", ".join(sorted(TRANSITIONS[current])) or "none, the status is final"
        raise IllegalTransition(
            f"{request.request_name} is {current} and cannot become {to}",
            cure=f"Allowed next statuses: {legal}",
        )
    if to is RequestStatus.FAILED and actor.startswith("system:"):
        raise IllegalTransition(
            f"{actor} cannot fail {request.request_name}: only a person may fail a request",
            cure="Hold the request with its evidence instead",
        )
    now, changes = timezone.now(), changes or {}
    values: dict[str, Any] = {
        "status": to,
        "status_since": now,
        "updated_at": now,
        "wait_reason": "",
        "wait_gate": "",
        "attempt": 0,
        "version": request.version + 1,
    }
    if "last_error" in changes:
        values["last_error_at"] = now
    elif to not in GIVEN_UP:
        values |= {"last_error": "", "last_error_at": None}
    values |= changes
    with transaction.atomic():
        unchanged = Request.objects.filter(pk=request.pk, version=request.version, status=current)
        if not unchanged.update(**values, next_check_at=Now()):
            raise StaleVersion(
                f"{request.request_name} changed in the meantime",
                cure="Read it again and retry",
            )
        for name, value in values.items():
            setattr(request, name, value)
        _record(request, from_status=current, reason=reason, actor=actor)
        logger.info("%s: %s → %s by %s: %s", request.request_name, current, to, actor, reason)
        close_alerts(request=request)
        if current in TAKES_CAPACITY and to not in TAKES_CAPACITY:
            admission.wake_next()
            quotas.wake_behind(request)
        if to in TERMINAL and request.callback_url:
            Callback.objects.create(request=request, event=to)
    return request


def _record(request: Request, *, from_status: str, reason: str, actor: str) -> None:
    StatusTransition.objects.create(
        request=request,
        from_status=from_status,
        to_status=request.status,
        reason=reason,
        actor=actor,
        call_id=current_request_id(),
        evidence=request.hold_evidence if request.status == RequestStatus.HELD else None,
        at=request.status_since,
    )
    audit.record_move(
        actor=actor, target=request.request_name, before=from_status, after=request.status, reason=reason
    )
    announce_requests(request.request_name)


def check_action(request: Request, *, reason: str, expected_version: int | None) -> None:
    """Raise without a reason, or if the request changed since the caller read it."""
    audit.need_reason(reason)
    if expected_version is not None and expected_version != request.version:
        raise StaleVersion(
            f"{request.request_name} changed since you read it", cure="Read it again and retry"
        )
