"""Advance one request by one step. An advisory lock makes duplicate deliveries harmless.

The handler decides; this module applies the outcome. An exception becomes an error on the request and
a retry with backoff, so that a failing request never affects another one.
"""

from __future__ import annotations

import logging
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from requests_app.lifecycle import deadlines, gates, handlers
from requests_app.lifecycle.gate_result import first_blocking
from requests_app.lifecycle.outcome import Move, Outcome, Wait, hold, stop_at
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.states import TAKES_CAPACITY, TERMINAL, RequestStatus
from requests_app.transitions import transition
from wms2_project.access.causes import caused
from wms2_project.changes import announce_requests
from wms2_project.errors import Conflict, RateLimited, TransientError, Wms2Error
from wms2_project.failpoints import failpoint
from wms2_project.leases import FREE, backoff_seconds, give_back, release, working_on
from wms2_project.locks import try_lock

logger = logging.getLogger(__name__)
ACTOR = "system:lifecycle"
RATE_LIMIT_RETRY_SEC = 5.0


def advance(request_id: UUID | str) -> bool:
    """Advance the request by one step; return whether its status changed.

    Do nothing if another worker holds its lock.
    """
    with try_lock(f"request {request_id}") as held:
        if not held:
            return False
        request = Request.objects.select_related("workflow").get(pk=request_id)
        snapshot = Snapshot(request, timezone.now())
        # A held request, or one that waits after an error, gets here only by a duplicate delivery.
        if request.status in TERMINAL or any(ask(snapshot).blocks for ask in gates.ALWAYS):
            return False
        with (
            caused(f"advance {request.status}", target=request.request_name, status=request.status),
            working_on(request),
        ):
            outcome = _decide(request, snapshot.now)
            admits = isinstance(outcome, Move) and outcome.to in TAKES_CAPACITY
            if request.status == RequestStatus.QUEUED and admits:
                return _admit(request, outcome)
            return _apply(request, outcome)


def _admit(request: Request, decided: Outcome) -> bool:
    """Apply an admission under the admission lock, so that concurrent requests cannot exceed the limits.

    The decision was made without the lock because it may take long, so capacity and quotas are checked again.
    """
    with try_lock("admission") as held:
        if not held:
            release(request, seconds=1.0)
            return False
        snapshot = Snapshot(request, timezone.now())
        blocked = first_blocking(ask(snapshot) for ask in gates.SHARED)
        return _apply(request, stop_at(blocked) if blocked else decided)


def _decide(request: Request, now: datetime) -> Outcome:
    """Return the outcome of the handler, or of the exception it raised."""
    if request.worker_deaths >= settings.MAX_WORKER_DEATHS:
        return hold(f"{request.worker_deaths} workers in a row died while processing this request")
    try:
        return deadlines.overdue(request, now) or handlers.HANDLERS[RequestStatus(request.status)](
            request, now
        )
    except RateLimited as limited:  # not a failure, so the attempt counter is unchanged
        kept = {name: getattr(request, name) for name in ("attempt", "last_error", "last_error_at")}
        return Wait(RATE_LIMIT_RETRY_SEC, str(limited), changes=kept)
    except Wms2Error as error:
        logger.warning("%s: %s", type(error).__name__, error)
        return _after_error(request, str(error), permanent=not isinstance(error, TransientError))
    except Exception as error:  # a bug must stop only this request and be visible on it
        logger.exception("unexpected error")
        return _after_error(request, f"{type(error).__name__}: {error}", permanent=True)


def _after_error(request: Request, error: str, *, permanent: bool) -> Outcome:
    """Retry with backoff. Hold the request after repeated permanent errors."""
    attempt = request.attempt + 1
    if permanent and attempt >= settings.MAX_CONSECUTIVE_ERRORS:
        return hold(error, attempts=attempt)
    changes = {"attempt": attempt, "last_error": error[:4000], "last_error_at": timezone.now()}
    return Wait(backoff_seconds(attempt), gates.describe_retry(attempt, error), gates.COOL_OFF, changes)


def _apply(request: Request, outcome: Outcome) -> bool:
    """Apply the outcome and give up the lease; return whether the status changed."""
    failpoint("advance.decided")
    if not isinstance(outcome, Move):
        _wait(request, outcome)
        return False
    changes = outcome.changes | FREE
    try:
        transition(request=request, to=outcome.to, reason=outcome.reason, actor=ACTOR, changes=changes)
    except Conflict as conflict:  # the request was moved in the meantime; that decision stands
        logger.info("outcome dropped: %s", conflict)
        release(request, seconds=0)
        return False
    failpoint("advance.moved")
    return True


def _wait(request: Request, outcome: Wait) -> None:
    """Return the lease and schedule the next check.

    If the request was woken in the meantime, store the outcome and check again at once. If it was changed,
    drop the outcome, which was decided on an older state.
    """
    calm = {"attempt": 0, "last_error": "", "last_error_at": None}
    waits = {"wait_reason": outcome.why[:1000], "wait_gate": outcome.gate}
    changes = calm | waits | outcome.changes
    unchanged = Request.objects.filter(pk=request.pk, version=request.version)
    unwoken = unchanged.filter(next_check_at=request.next_check_at)
    if give_back(unwoken, seconds=outcome.seconds, **changes) or give_back(unchanged, seconds=0, **changes):
        if any(getattr(request, name) != changes[name] for name in ("wait_reason", "last_error")):
            announce_requests(request.request_name)
        return
    logger.info("outcome dropped: the request changed in the meantime")
    release(request, seconds=0)
