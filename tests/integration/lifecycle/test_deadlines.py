"""A request that exceeds a deadline is held or raises an alert; only a person fails a request."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.db import connection
from django.utils import timezone

from condor.fake import FakeSchedd
from requests_app.lifecycle import handlers
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.maintenance import tidy_up
from requests_app.lifecycle.outcome import Wait
from requests_app.models import Alert
from requests_app.services.alerts import open_alerts, raise_alert
from requests_app.services.notifications import MAX_ATTEMPTS, send_alerts
from requests_app.states import DEADLINES, TRANSITIONS, Overdue, RequestStatus
from requests_app.transitions import transition
from tests.integration.factories import make_dag, make_request, make_round, make_workflow
from tests.integration.receiver import Receiver
from wms2_project.errors import IllegalTransition, ServiceRejected, ServiceUnavailable
from wms2_project.locks import lock_key

pytestmark = pytest.mark.django_db
S = RequestStatus
PACKAGE = Path(__file__).parents[3] / "requests_app"


@pytest.fixture(autouse=True)
def _quiet_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the handlers, so that only deadlines act."""
    for status in handlers.HANDLERS:
        monkeypatch.setitem(handlers.HANDLERS, status, lambda request, now: Wait(60, "waiting"))


def overdue(status: RequestStatus, **values: Any) -> Any:
    since = timezone.now() - DEADLINES[status].after - timedelta(minutes=1)
    row = make_request(status=status, status_since=since, **values)
    for _ in range(2):
        advance(row.pk)
    row.refresh_from_db()
    return row


@pytest.mark.parametrize("status", [one for one in DEADLINES if DEADLINES[one].then is Overdue.HOLD])
def test_overdue_internal_work_is_held(status: RequestStatus) -> None:
    row = overdue(status)
    assert row.status == S.HELD
    assert f"has been {status} for" in row.hold_evidence["reason"]


@pytest.mark.parametrize(("reachable", "kind"), [(True, "slow_dag"), (False, "schedd_unreachable")])
def test_a_slow_dag_is_distinguished_from_a_silent_schedd(
    fake_schedd: FakeSchedd, reachable: bool, kind: str
) -> None:
    if not reachable:
        fake_schedd.silence()
    row = overdue(S.ACTIVE)
    alert = Alert.objects.get()
    assert (row.status, alert.kind, alert.count) == (S.ACTIVE, kind, 2)


def test_an_overdue_stop_is_removed_again(fake_schedd: FakeSchedd) -> None:
    workflow = make_workflow()
    make_dag(make_round(workflow))
    row = overdue(S.STOPPING, workflow=workflow)
    assert (row.status, Alert.objects.get().kind) == (S.STOPPING, "stop_overdue")
    assert len(fake_schedd.called("remove_dag")) == 2


@pytest.mark.parametrize(("status", "kind"), [(S.QUEUED, "stuck_in_queued"), (S.PILOT_RUNNING, "slow_pilot")])
def test_waiting_long_is_an_alert_and_no_more(status: RequestStatus, kind: str) -> None:
    row = overdue(status)
    assert (row.status, open_alerts()) == (status, {kind: 1})


def test_an_edit_does_not_put_a_deadline_off() -> None:
    row = make_request(status=S.SUBMITTED, status_since=timezone.now() - timedelta(hours=2))
    row.save()  # updated_at is now
    advance(row.pk)
    row.refresh_from_db()
    assert row.status == S.HELD


@pytest.mark.parametrize("status", [one for one in S if S.FAILED in TRANSITIONS[one]])
def test_the_machine_cannot_fail_a_request(status: RequestStatus) -> None:
    row = make_request(status=status)
    with pytest.raises(IllegalTransition, match="only a person"):
        transition(request=row, to=S.FAILED, reason="hopeless", actor="system:lifecycle")
    row.refresh_from_db()
    assert row.status == status


def mentions_of_failed(path: Path) -> Iterator[int]:
    for node in ast.walk(ast.parse(path.read_text())):
        named = isinstance(node, ast.Attribute) and node.attr == "FAILED" and isinstance(node.value, ast.Name)
        if named and node.value.id in ("S", "RequestStatus"):  # type: ignore[attr-defined]
            yield node.lineno  # type: ignore[attr-defined]


def test_no_handler_deadline_or_task_fails_a_request() -> None:
    paths = [*(PACKAGE / "lifecycle").glob("*.py"), PACKAGE / "tasks.py", PACKAGE / "admission.py"]
    assert {path.name: lines for path in paths if (lines := list(mentions_of_failed(path)))} == {}


@pytest.fixture
def mailed(settings: Any) -> None:
    settings.ALERT_EMAIL_TO = ["shift@example.org"]


def test_an_alert_is_mailed_once_however_often_it_is_seen(mailed: None) -> None:
    row = make_request(status=S.QUEUED)
    for _ in range(3):
        raise_alert(request=row, kind="slow_dag", message="it takes long")
        send_alerts(now=timezone.now())
    assert [(one.subject, one.body) for one in mail.outbox] == [
        (f"[WMS2] slow_dag: {row.request_name}", "it takes long")
    ]


def test_nothing_is_sent_without_a_channel() -> None:
    raise_alert(request=make_request(), kind="slow_dag", message="m")
    assert send_alerts(now=timezone.now()) == 0
    assert Alert.objects.get().send_attempts == 0


@pytest.mark.parametrize("url", ["https://elsewhere.org/hook", "http://hooks.example.org/x"])
def test_a_webhook_outside_the_allow_list_is_never_called(
    settings: Any, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    settings.ALERT_WEBHOOK_URL, settings.ALERT_WEBHOOK_HOSTS = url, ["hooks.example.org"]
    called: list[Any] = []
    monkeypatch.setattr("requests_app.services.notifications.post_once", lambda *a, **k: called.append(a))
    raise_alert(request=make_request(), kind="slow_dag", message="m")
    for _ in range(MAX_ATTEMPTS + 3):
        assert send_alerts(now=timezone.now()) == 0
    assert called == []
    assert Alert.objects.get().send_attempts == MAX_ATTEMPTS


def test_an_alert_is_posted_once_and_repeated_only_while_the_receiver_is_unavailable(
    settings: Any, receiver: str
) -> None:
    settings.ALERT_WEBHOOK_URL, settings.ALERT_WEBHOOK_HOSTS = f"{receiver}/hook", ["localhost"]
    Receiver.answers = [503]
    row = make_request(status=S.QUEUED)
    raise_alert(request=row, kind="slow_dag", message="it takes long")
    assert [send_alerts(now=timezone.now()) for _ in range(3)] == [0, 1, 0]
    answer_body = [json.loads(body) for _, body in Receiver.got]
    assert [(one["request"], one["kind"], one["message"]) for one in answer_body] == [
        (row.request_name, "slow_dag", "it takes long")
    ] * 2


def alerts(n: int) -> None:
    for number in range(n):
        raise_alert(request=make_request(status=S.QUEUED), kind="slow_dag", message=f"m{number}")


def attempts() -> list[int]:
    return list(Alert.objects.order_by("id").values_list("send_attempts", flat=True))


class FailingMail(BaseEmailBackend):
    """A mail server that fails as often as there are errors, then accepts messages."""

    errors: ClassVar[list[Exception]] = []

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        if self.errors:
            raise self.errors.pop(0)
        return len(email_messages)


def fail_mail(settings: Any, *errors: Exception) -> None:
    settings.EMAIL_BACKEND, FailingMail.errors = f"{__name__}.FailingMail", list(errors)


@pytest.mark.parametrize("error", [ServiceUnavailable("no answer"), TimeoutError("no answer")])
def test_a_channel_that_does_not_answer_ends_the_batch_and_each_alert_gets_its_turn(
    mailed: None, settings: Any, error: Exception
) -> None:
    alerts(3)
    fail_mail(settings, *[error] * 4)
    seen = []
    for _ in range(4):
        send_alerts(now=timezone.now())
        seen.append(attempts())
    assert seen == [[1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1]]


def test_an_alert_that_is_refused_does_not_keep_the_others_back(mailed: None, settings: Any) -> None:
    alerts(3)
    fail_mail(settings, ServiceRejected("no such hook"))
    assert send_alerts(now=timezone.now()) == 2
    assert [alert.sent_at is None for alert in Alert.objects.order_by("id")] == [True, False, False]


def test_a_slow_channel_ends_the_batch_in_time(mailed: None) -> None:
    alerts(5)
    clock = iter(range(0, 1000, 20))
    assert send_alerts(now=timezone.now(), clock=lambda: float(next(clock))) == 1
    assert attempts() == [1, 0, 0, 0, 0]


def test_only_one_process_tidies_up_at_a_time(mailed: None) -> None:
    alerts(1)
    another = connection.copy()
    try:
        with another.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [lock_key("tidy up")])
        tidy_up(now=timezone.now())
        assert attempts() == [0]
        with another.cursor() as cursor:  # closing is not enough: the server ends the session some time later
            cursor.execute("SELECT pg_advisory_unlock(%s)", [lock_key("tidy up")])
    finally:
        another.close()
    tidy_up(now=timezone.now())
    assert attempts() == [1]
