"""`advance`: one look at one request. At most one at a time per request, whatever the queue delivers.

The handler decides; this module applies the outcome, and turns exceptions into a visible error with
a growing wait, so that one request's trouble never touches another.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from requests_app.lifecycle import gates, handlers, stuck
from requests_app.lifecycle.look import Look
from requests_app.lifecycle.outcome import Move, Outcome, Wait, hold
from requests_app.models import Request
from requests_app.states import TERMINAL, RequestStatus
from requests_app.transitions import transition
from wms2_project.causes import caused
from wms2_project.errors import Conflict, TransientError, Wms2Error
from wms2_project.failpoints import failpoint
from wms2_project.leases import backoff_seconds, release, working_on
from wms2_project.locks import try_lock

logger = logging.getLogger(__name__)
ACTOR = "system:lifecycle"


def advance(request_id: UUID | str) -> None:
    """Take the request one step further if nobody else is doing so."""
    with try_lock(f"request {request_id}") as held:
        if not held:
            return
        request = Request.objects.select_related("workflow").get(pk=request_id)
        look = Look(request, timezone.now())
        # Only a message that was delivered twice comes for a request that is held or waits out an error.
        if request.status in TERMINAL or any(ask(look).blocks for ask in gates.ALWAYS):
            return
        with (
            caused(f"advance {request.status}", target=request.request_name, status=request.status),
            working_on(request),
            _turn(request) as turn,
        ):
            if not turn:
                release(request, seconds=1.0)
                return
            _apply(request, _decide(request))


def _turn(request: Request) -> AbstractContextManager[bool]:
    """Admission counts and then admits: only one request may be between the two."""
    return try_lock("admission") if request.status == RequestStatus.QUEUED else nullcontext(True)


def _decide(request: Request) -> Outcome:
    """The handler's outcome, or what its exception means."""
    now = timezone.now()
    if request.worker_deaths >= settings.MAX_WORKER_DEATHS:
        return hold(f"working on this request killed {request.worker_deaths} workers in a row")
    try:
        return stuck.overdue(request, now) or handlers.HANDLERS[RequestStatus(request.status)](request, now)
    except Wms2Error as error:
        logger.warning("%s: %s", type(error).__name__, error)
        return _after_error(request, str(error), permanent=not isinstance(error, TransientError))
    except Exception as error:  # a bug must stop this request only, and be seen on it
        logger.exception("unexpected error")
        return _after_error(request, f"{type(error).__name__}: {error}", permanent=True)


def _after_error(request: Request, error: str, *, permanent: bool) -> Outcome:
    """Wait longer each time; hold when a permanent error keeps coming back."""
    now, attempt = timezone.now(), request.attempt + 1
    if permanent and attempt >= settings.MAX_CONSECUTIVE_ERRORS:
        return hold(error, attempts=attempt)
    pause = backoff_seconds(attempt)
    request.attempt, request.last_error, request.last_error_at = attempt, error[:4000], now
    request.save(update_fields=["attempt", "last_error", "last_error_at"])
    request.next_check_at = now + timedelta(seconds=pause)
    return Wait(seconds=pause, why=gates.cooloff(Look(request, now)).detail, after_error=True)


def _apply(request: Request, outcome: Outcome) -> None:
    """Move or wait, and give the lease back either way."""
    failpoint("advance.decided")
    if isinstance(outcome, Move):
        try:
            transition(
                request=request, to=outcome.to, reason=outcome.reason, actor=ACTOR, changes=outcome.changes
            )
            failpoint("advance.moved")
        except Conflict as conflict:  # somebody moved it meanwhile; what they decided stands
            logger.info("outcome dropped: %s", conflict)
        release(request, seconds=0)
        return
    calm = {} if outcome.after_error else {"attempt": 0}
    release(request, seconds=outcome.seconds, wait_reason=outcome.why[:1000], **calm)
