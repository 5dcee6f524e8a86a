"""`advance`: one step under one lock; an error affects its own request only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from requests_app import tasks
from requests_app.lifecycle import due, handlers
from requests_app.lifecycle.advance import RATE_LIMIT_RETRY_SEC, advance
from requests_app.lifecycle.outcome import Move, Outcome, Wait, hold
from requests_app.models import Alert, Request
from requests_app.services.editing import change_request
from requests_app.services.stopping import abort_request, stop_request
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_request
from wms2_project.errors import PermanentError, RateLimited, TransientError
from wms2_project.leases import wake

pytestmark = pytest.mark.django_db
EDIT = {"priority": 7}
Script = Callable[[Request, datetime], Outcome]


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Callable[[RequestStatus, Script], None]:
    def install(status: RequestStatus, script: Script) -> None:
        monkeypatch.setitem(handlers.HANDLERS, status, script)

    return install


def fails_with(error: Exception) -> Script:
    def script(request: Request, now: datetime) -> Outcome:
        raise error

    return script


def advance_again(request: Request) -> None:
    """Advance the request as if the wait after an error were over."""
    wake(Request.objects.filter(pk=request.pk))
    advance(request.pk)


def test_a_move_is_applied_and_the_request_is_due_at_once(handle: Callable[..., None]) -> None:
    handle(RequestStatus.QUEUED, lambda request, now: Move(RequestStatus.PLANNING, "admitted"))
    request = make_request(status=RequestStatus.QUEUED)
    advance(request.pk)
    request.refresh_from_db()
    assert (request.status, request.owner) == ("planning", "")
    assert request.next_check_at <= timezone.now()


def test_a_wait_has_a_reason(handle: Callable[..., None]) -> None:
    handle(RequestStatus.QUEUED, lambda request, now: Wait(30, "admission 300/300"))
    request = make_request(status=RequestStatus.QUEUED)
    advance(request.pk)
    request.refresh_from_db()
    assert (request.status, request.wait_reason) == ("queued", "admission 300/300")


def test_an_operators_decision_beats_the_handlers(handle: Callable[..., None]) -> None:
    def aborted_meanwhile(request: Request, now: datetime) -> Outcome:
        abort_request(request=Request.objects.get(pk=request.pk), actor="user:ana", reason="changed my mind")
        return Move(RequestStatus.ACTIVE, "submitted")

    handle(RequestStatus.PLANNING, aborted_meanwhile)
    request = make_request(status=RequestStatus.PLANNING)
    advance(request.pk)
    request.refresh_from_db()
    assert request.status == "aborted"
    assert [row.to_status for row in request.transitions.all()] == ["planning", "aborted"]


def test_a_transient_error_is_visible_and_never_holds(handle: Callable[..., None]) -> None:
    handle(RequestStatus.ACTIVE, fails_with(TransientError("the schedd sleeps")))
    request = make_request(status=RequestStatus.ACTIVE)
    for _ in range(15):
        advance_again(request)
    request.refresh_from_db()
    assert (request.status, request.attempt, request.last_error) == ("active", 15, "the schedd sleeps")
    assert request.next_check_at > timezone.now()


def test_waiting_for_our_own_rate_limit_is_no_error(handle: Callable[..., None]) -> None:
    handle(RequestStatus.ACTIVE, fails_with(RateLimited("the WMS2 limit of 20 calls per second is used up")))
    request = make_request(status=RequestStatus.ACTIVE, attempt=3)

    advance_again(request)

    request.refresh_from_db()
    assert (request.status, request.attempt, request.last_error) == ("active", 3, "")
    assert "the WMS2 limit" in request.wait_reason
    assert request.next_check_at - timezone.now() <= timedelta(seconds=RATE_LIMIT_RETRY_SEC)


@pytest.mark.parametrize("success", [Wait(30, "running"), Move(RequestStatus.PARTIAL, "the DAG ended")])
def test_an_error_is_cleared_by_a_success(handle: Callable[..., None], success: Outcome) -> None:
    handle(RequestStatus.ACTIVE, fails_with(TransientError("the schedd sleeps")))
    request = make_request(status=RequestStatus.ACTIVE)
    advance_again(request)
    handle(RequestStatus.ACTIVE, lambda request, now: success)
    advance_again(request)
    request.refresh_from_db()
    assert (request.attempt, request.last_error, request.last_error_at) == (0, "", None)


def test_a_hold_keeps_its_reason_as_the_last_error(handle: Callable[..., None]) -> None:
    handle(RequestStatus.ACTIVE, lambda request, now: hold("no site is left"))
    request = make_request(status=RequestStatus.ACTIVE)
    advance(request.pk)
    request.refresh_from_db()
    assert (request.last_error, request.last_error_at) == ("no site is left", request.status_since)
    abort_request(request=request, actor="user:ana", reason="given up")
    request.refresh_from_db()
    assert request.last_error == "no site is left"


@pytest.mark.parametrize("error", [PermanentError("the manifest is damaged"), ZeroDivisionError("a bug")])
def test_a_permanent_error_holds_after_ten_in_a_row(handle: Callable[..., None], error: Exception) -> None:
    handle(RequestStatus.ACTIVE, fails_with(error))
    request = make_request(status=RequestStatus.ACTIVE)
    for _ in range(9):
        advance_again(request)
    request.refresh_from_db()
    assert request.status == "active"
    advance_again(request)
    request.refresh_from_db()
    assert request.status == "held"
    assert str(error) in request.last_error
    assert request.hold_evidence == {"reason": request.last_error, "attempts": 10}


@pytest.mark.parametrize(
    ("meanwhile", "status", "attempts"),
    [
        (lambda row: stop_request(request=row, actor="user:olga", reason="now"), "stopping", (0, 0)),
        (
            lambda row: change_request(request=row, actor="user:olga", reason="now", changes=EDIT),
            "active",
            (8, 8),
        ),
        (lambda row: wake(Request.objects.filter(pk=row.pk)), "active", (0, 9)),
    ],
    ids=["stopped", "edited", "woken"],
)
@pytest.mark.parametrize("fails", [False, True])
def test_changes_during_a_handler_make_the_request_due_at_once(
    handle: Callable[..., None],
    meanwhile: Callable[[Request], None],
    status: str,
    attempts: tuple[int, int],
    fails: bool,
) -> None:
    def script(request: Request, now: datetime) -> Outcome:
        meanwhile(Request.objects.select_related("workflow").get(pk=request.pk))
        if fails:
            raise PermanentError("the manifest is damaged")
        return Wait(300, "running")

    handle(RequestStatus.ACTIVE, script)
    request = make_request(status=RequestStatus.ACTIVE, attempt=8, next_check_at=ago(seconds=1))
    advance(request.pk)
    request.refresh_from_db()
    assert (request.status, request.owner, request.attempt) == (status, "", attempts[fails])
    assert request.next_check_at <= timezone.now()


def test_success_in_between_starts_the_count_again(handle: Callable[..., None]) -> None:
    request = make_request(status=RequestStatus.ACTIVE, attempt=9)
    handle(RequestStatus.ACTIVE, lambda request, now: Wait(1, "running"))
    advance(request.pk)
    request.refresh_from_db()
    assert request.attempt == 0


def test_work_that_kills_its_workers_is_held(handle: Callable[..., None]) -> None:
    handle(RequestStatus.PLANNING, fails_with(AssertionError("must not be called")))
    request = make_request(status=RequestStatus.PLANNING, worker_deaths=3)
    advance(request.pk)
    request.refresh_from_db()
    assert request.status == "held"
    assert "3 workers in a row died" in request.last_error


@pytest.mark.parametrize(
    ("status", "hours"),
    [("submitted", 1), ("planning", 1), ("partial", 1), ("resubmitting", 1)],
)
def test_past_its_deadline_internal_work_is_held_never_failed(
    handle: Callable[..., None], status: str, hours: int
) -> None:
    handle(RequestStatus(status), fails_with(AssertionError("must not be called")))
    since = timezone.now() - timedelta(hours=hours, minutes=1)
    request = make_request(status=RequestStatus(status), status_since=since)
    advance(request.pk)
    request.refresh_from_db()
    assert request.status == "held"
    assert f"has been {status} for" in request.last_error


def test_a_long_queue_is_an_alert_and_no_more(handle: Callable[..., None]) -> None:
    handle(RequestStatus.QUEUED, lambda request, now: Wait(60, "admission 1/1"))
    request = make_request(status=RequestStatus.QUEUED, status_since=timezone.now() - timedelta(days=8))
    for _ in range(3):
        advance(request.pk)
    request.refresh_from_db()
    alert = Alert.objects.get()
    assert (request.status, alert.kind, alert.count) == ("queued", "stuck_in_queued", 3)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return the requests that were sent to queues."""
    messages: list[tuple[str, str]] = []

    def send(arguments: list[str], *, queue: str, **options: Any) -> None:
        messages.append((arguments[0], queue))

    monkeypatch.setattr(tasks.advance_request, "apply_async", send)
    return messages


def test_the_step_after_a_move_is_sent_at_once(
    handle: Callable[..., None], sent: list[tuple[str, str]]
) -> None:
    handle(RequestStatus.QUEUED, lambda request, now: Move(RequestStatus.PLANNING, "admitted"))
    request = make_request(status=RequestStatus.QUEUED)
    tasks.advance_request(str(request.pk))
    request.refresh_from_db()
    assert (sent, request.owner) == ([(str(request.pk), "planning")], "queue:planning")
    assert due.claim_requests() == [], "the sweep does not send it again"


@pytest.mark.parametrize(
    "outcome", [Wait(0, "again"), hold("a person decides"), Move(RequestStatus.ABORTED, "not needed")]
)
def test_nothing_is_sent_after_a_wait_or_an_end(
    handle: Callable[..., None], sent: list[tuple[str, str]], outcome: Outcome
) -> None:
    handle(RequestStatus.QUEUED, lambda request, now: outcome)
    tasks.advance_request(str(make_request(status=RequestStatus.QUEUED).pk))
    assert sent == []


def test_a_step_that_the_sweep_has_claimed_is_not_sent_twice(
    handle: Callable[..., None], sent: list[tuple[str, str]]
) -> None:
    request = make_request(status=RequestStatus.PLANNING)
    (claimed,) = due.claim_requests()
    assert claimed[0].id == request.pk
    assert due.claim_next_step(str(request.pk)) is None
