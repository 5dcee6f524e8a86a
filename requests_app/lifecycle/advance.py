"""`advance`: one look at one request. At most one at a time per request, whatever the queue delivers.

The handler decides; this module applies the outcome, and turns exceptions into a visible error with
a growing wait, so that one request's trouble never touches another.
"""

from __future__ import annotations

import logging
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from requests_app.lifecycle import gates, handlers, stuck
from requests_app.lifecycle.gate import first_blocking
from requests_app.lifecycle.look import Look
from requests_app.lifecycle.outcome import Move, Outcome, Wait, hold, stop_at
from requests_app.models import Request
from requests_app.states import TAKES_CAPACITY, TERMINAL, RequestStatus
from requests_app.transitions import transition
from wms2_project.causes import caused
from wms2_project.errors import Conflict, RateLimited, TransientError, Wms2Error
from wms2_project.failpoints import failpoint
from wms2_project.leases import backoff_seconds, give_back, release, working_on
from wms2_project.locks import try_lock

logger = logging.getLogger(__name__)
ACTOR = "system:lifecycle"
RATE_LIMIT_RETRY_SEC = 5.0


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
        ):
            outcome = _decide(request, look.now)
            admits = isinstance(outcome, Move) and outcome.to in TAKES_CAPACITY
            if request.status == RequestStatus.QUEUED and admits:
                _admit(request, outcome)
            else:
                _apply(request, outcome)


def _admit(request: Request, decided: Outcome) -> None:
    """Admission counts and then admits: only one request at a time may be between the two.

    The decision was made without the lock, because it may take long; so places and quotas are counted again.
    """
    with try_lock("admission") as held:
        if not held:
            release(request, seconds=1.0)
            return
        look = Look(request, timezone.now())
        blocked = first_blocking(ask(look) for ask in gates.SHARED)
        _apply(request, stop_at(blocked) if blocked else decided)


def _decide(request: Request, now: datetime) -> Outcome:
    """The handler's outcome, or what its exception means."""
    if request.worker_deaths >= settings.MAX_WORKER_DEATHS:
        return hold(f"working on this request killed {request.worker_deaths} workers in a row")
    try:
        return stuck.overdue(request, now) or handlers.HANDLERS[RequestStatus(request.status)](request, now)
    except RateLimited as limited:  # nothing failed, so nothing is counted
        kept = {name: getattr(request, name) for name in ("attempt", "last_error", "last_error_at")}
        return Wait(RATE_LIMIT_RETRY_SEC, str(limited), changes=kept)
    except Wms2Error as error:
        logger.warning("%s: %s", type(error).__name__, error)
        return _after_error(request, str(error), permanent=not isinstance(error, TransientError))
    except Exception as error:  # a bug must stop this request only, and be seen on it
        logger.exception("unexpected error")
        return _after_error(request, f"{type(error).__name__}: {error}", permanent=True)


def _after_error(request: Request, error: str, *, permanent: bool) -> Outcome:
    """Wait longer each time; hold when a permanent error keeps coming back."""
    attempt = request.attempt + 1
    if permanent and attempt >= settings.MAX_CONSECUTIVE_ERRORS:
        return hold(error, attempts=attempt)
    changes = {"attempt": attempt, "last_error": error[:4000], "last_error_at": timezone.now()}
    return Wait(backoff_seconds(attempt), gates.waited_out(attempt, error), gates.COOL_OFF, changes)


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
    _wait(request, outcome)


def _wait(request: Request, outcome: Wait) -> None:
    """Give the request back until then. Whatever happened to it meanwhile is seen to at once: after news the
    outcome still holds, after a person's change it was decided on an older state and is dropped.
    """
    calm = {"attempt": 0, "last_error": "", "last_error_at": None}
    waits = {"wait_reason": outcome.why[:1000], "wait_gate": outcome.gate}
    changes = calm | waits | outcome.changes
    unchanged = Request.objects.filter(pk=request.pk, version=request.version)
    unwoken = unchanged.filter(next_check_at=request.next_check_at)
    if give_back(unwoken, seconds=outcome.seconds, **changes) or give_back(unchanged, seconds=0, **changes):
        return
    logger.info("outcome dropped: the request changed meanwhile")
    release(request, seconds=0)
