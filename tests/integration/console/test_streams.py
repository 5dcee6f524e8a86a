"""The streams process: permissions, topics, and sources of changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.streams.application import Refused, allow_origin, read_query
from console.streams.hub import Hub, Ref
from console.streams.sessions import Viewer, session_of, viewers_of
from console.streams.source import Source, read_marks
from requests_app.services.alerts import close_alerts, raise_alert
from requests_app.states import RequestStatus
from requests_app.transitions import transition
from tests.integration.factories import make_request, make_user
from tests.waiting import until
from wms2_project import redis_state
from wms2_project.access.audit import record
from wms2_project.access.roles import Role
from wms2_project.changes import announce, channel

pytestmark = pytest.mark.django_db
OLGA = Viewer("s", "olga", Role.OPERATOR)


def logged_in(role: Role, *, staff: bool = True, **values: Any) -> tuple[str, Any]:
    user = make_user(role=role)
    for name, value in ({"is_staff": staff} | values).items():
        setattr(user, name, value)
    user.save()
    browser = Client()
    browser.force_login(user)
    return browser.cookies["sessionid"].value, user


def test_a_session_of_the_console_is_known_with_its_role() -> None:
    key, user = logged_in(Role.OPERATOR)
    assert viewers_of([key, "other"]) == {key: Viewer(key, user.username, Role.OPERATOR)}


def end_session(key: str, user: Any) -> None:
    Session.objects.filter(pk=key).delete()


def let_session_expire(key: str, user: Any) -> None:
    Session.objects.filter(pk=key).update(expire_date=timezone.now() - timedelta(seconds=1))


def change_password(key: str, user: Any) -> None:
    user.set_password("another long password")
    user.save()


def deactivate(key: str, user: Any) -> None:
    user.is_active = False
    user.save()


def take_role(key: str, user: Any) -> None:
    user.groups.clear()


@pytest.mark.parametrize("end", [end_session, let_session_expire, change_password, deactivate, take_role])
def test_a_session_that_has_ended_is_not_known(end: Callable[[str, Any], None]) -> None:
    key, user = logged_in(Role.OPERATOR)
    end(key, user)
    assert viewers_of([key]) == {}


def test_an_account_without_staff_status_gets_no_events() -> None:
    key, _user = logged_in(Role.REQUESTOR, staff=False)
    assert viewers_of([key]) == {}


def test_sessions_are_checked_together() -> None:
    one = [logged_in(Role.VIEWER)[0]]
    many = [*one, *(logged_in(Role.VIEWER)[0] for _ in range(5))]

    def queries(keys: list[str]) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert len(viewers_of(keys)) == len(keys)
        return len(captured)

    assert queries(one) == queries(many) == 3


def test_the_session_is_read_from_the_cookie() -> None:
    assert session_of("csrftoken=a; sessionid=abc") == "abc"
    assert session_of("") == ""


def test_a_page_names_topics_and_the_fragments_it_has() -> None:
    page = read_query("topic=fleet&topic=request%3Aa&fragment=home%2F&etag=%22x%22", OLGA)
    assert page.topics == {"fleet", "request:a"}
    assert page.known == {Ref("home", "", Role.OPERATOR): '"x"'}


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("fragment=nothing/", 404),
        (f"fragment=home/{'x' * 501}", 404),
        ("&".join(f"topic=t{number}" for number in range(51)), 400),
        ("fragment=home/&etag=a&etag=b", 400),
    ],
)
def test_a_query_with_something_unknown_is_refused(query: str, status: int) -> None:
    with pytest.raises(Refused) as refused:
        read_query(query, OLGA)
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:9000", "https://evil.example", 403),
        ("127.0.0.1:9000", "null", 403),
        ("evil.example", "", 400),
        ("", "", 400),
    ],
)
def test_pages_of_other_hosts_get_no_events(host: str, origin: str, status: int) -> None:
    with pytest.raises(Refused) as refused:
        allow_origin(host, origin)
    assert refused.value.status == status


def test_a_page_of_the_same_host_at_another_port_gets_events() -> None:
    headers = allow_origin("127.0.0.1:9000", "http://127.0.0.1:8000")
    assert headers["access-control-allow-origin"] == "http://127.0.0.1:8000"
    assert allow_origin("127.0.0.1:9000", "") == {}


@pytest.fixture
def heard(settings: Any, django_capture_on_commit_callbacks: Any) -> Any:
    """Return a function that runs a change and returns the topics that were announced after its commit."""
    client = redis.Redis.from_url(settings.REDIS_URL, decode_responses=True)
    with client.pubsub() as subscription:
        subscription.subscribe(channel())
        until(lambda: subscription.get_message())

        def topics_of(change: Callable[[], object]) -> set[str]:
            with django_capture_on_commit_callbacks(execute=True):
                change()
                announce("the end")
            topics: set[str] = set()
            while "the end" not in topics:
                message = until(lambda: subscription.get_message(ignore_subscribe_messages=True))
                topics.update(json.loads(message["data"]))
            return topics - {"the end"}

        yield topics_of
    client.close()


def test_a_change_of_status_is_announced(heard: Any) -> None:
    row = make_request(status=RequestStatus.ACTIVE)
    topics = heard(
        lambda: transition(request=row, to=RequestStatus.HELD, reason="a test", actor="system:lifecycle")
    )
    assert topics == {"fleet", f"request:{row.request_name}"}


def test_alerts_and_decisions_are_announced(heard: Any) -> None:
    row = make_request()
    assert heard(lambda: raise_alert(request=row, kind="slow_dag", message="it takes long")) == {"alerts"}
    assert heard(lambda: raise_alert(request=row, kind="slow_dag", message="it takes long")) == set()
    assert heard(lambda: close_alerts(request=row)) == {"alerts"}
    assert heard(lambda: close_alerts(request=row)) == set()
    assert heard(lambda: record(actor="user:a", action="drain", target="T2_CH_CERN", reason="r")) == {
        "audit", "request:T2_CH_CERN",
    }  # fmt: skip


def test_an_absent_redis_delays_no_call(settings: Any, django_capture_on_commit_callbacks: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with django_capture_on_commit_callbacks(execute=True):
        announce("fleet")
    redis_state._paused_until.clear()


def test_a_lost_announcement_is_detected_from_the_tables() -> None:
    hub = Hub({}, lambda *_: None)  # type: ignore[arg-type, return-value]
    source = Source(hub)
    source._note(read_marks())
    make_request(status=RequestStatus.ACTIVE)
    record(actor="user:a", action="drain", target="T2_CH_CERN", reason="r")
    source._announced = {"audit"}
    source._note(read_marks())
    assert hub._changed == {"fleet"}


def test_announced_changes_are_not_announced_again() -> None:
    hub = Hub({}, lambda *_: None)  # type: ignore[arg-type, return-value]
    source = Source(hub)
    source._note(read_marks())
    source._note(read_marks())
    assert hub._changed == set()
