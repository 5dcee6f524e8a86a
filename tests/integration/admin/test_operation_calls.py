"""Every operator action through REST, console and command: each requires a reason and records the actor."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from rest_framework.test import APIClient

from dags_app.models import DAG, QuarantinedReplica, Schedd
from dags_app.states import DAGStatus
from requests_app.models import Alert, Request
from requests_app.services.alerts import raise_alert
from requests_app.services.importing import import_request
from requests_app.states import RequestStatus as S
from tests.integration.admin.test_actions import press
from tests.integration.factories import (
    DOCUMENT,
    ago,
    make_dag,
    make_quarantined,
    make_request,
    make_round,
    make_site,
)
from wms2_project.api.endpoints import endpoints
from wms2_project.models import AuditEvent
from wms2_project.operations.rest import MESSAGE_HEADER

pytestmark = pytest.mark.django_db
SCHEDD = "one@pool"
RESOURCES = {"memory_mb": 3000, "category_throttles": {"Merge": 3}}


@dataclass(frozen=True)
class Calls:
    """The target of an action, and its call by REST, console and command."""

    row: Callable[[], Any]
    rest: str
    button: str
    command: str
    body: dict[str, Any] = field(default_factory=dict)
    form: dict[str, Any] = field(default_factory=dict)


def _request(status: S) -> Callable[[], Request]:
    return lambda: make_request(status=status)


def _dag(status: DAGStatus = DAGStatus.RUNNING) -> Callable[[], DAG]:
    ended = ago(minutes=1) if status is DAGStatus.REMOVED else None

    def make() -> DAG:
        row = make_request(status=S.HELD if ended else S.ACTIVE)
        return make_dag(make_round(row.workflow), status=status, completed_at=ended)

    return make


def _rescuable() -> Request:
    return Request.objects.get(workflow=_dag(DAGStatus.REMOVED)().workflow_id)


def _imported() -> Request:
    return import_request(document=DOCUMENT, actor="user:ana")[0]


def _changeable() -> Request:
    make_site()
    return make_request(status=S.QUEUED)


def _alert() -> Alert:
    raise_alert(request=make_request(), kind="slow_dag", message="it takes long")
    return Alert.objects.get()


def _schedd() -> Schedd:
    return Schedd.objects.create(name=SCHEDD)


def _lost() -> Schedd:
    return Schedd.objects.create(name=SCHEDD, silent_since=ago(hours=1))


def _quarantined() -> QuarantinedReplica:
    return make_quarantined(_dag()())


ACTIONS: dict[str, Calls] = {
    "submit": Calls(_request(S.NEW), "POST requests/<request_name:name>/submit", "submit", "request submit"),
    "stop": Calls(_request(S.ACTIVE), "POST requests/<request_name:name>/stop", "stop", "request stop"),
    "hold": Calls(
        _request(S.ACTIVE), "POST requests/<request_name:name>/stop", "stop", "request stop --hold",
        body={"hold": True}, form={"hold": "on"},
    ),
    "release": Calls(
        _request(S.HELD), "POST requests/<request_name:name>/release", "release", "request release"
    ),
    "fail": Calls(_request(S.HELD), "POST requests/<request_name:name>/fail", "fail", "request fail"),
    "fail-files": Calls(
        _request(S.HELD), "POST requests/<request_name:name>/fail-files", "fail-files",
        "request fail-files --state fresh", body={"state": "fresh"}, form={"state": "fresh"},
    ),
    "invalidate": Calls(
        _request(S.COMPLETED), "POST requests/<request_name:name>/invalidate", "invalidate",
        "request invalidate",
    ),
    "share": Calls(_request(S.HELD), "POST requests/<request_name:name>/share", "share", "request share"),
    "abort": Calls(_request(S.PLANNING), "POST requests/<request_name:name>/abort", "abort", "request abort"),
    "restart": Calls(
        _imported, "POST requests/<request_name:name>/restart", "restart", "request restart",
        form={"cleanup_policy": "keep_until_replaced"},
    ),
    "priority": Calls(
        _changeable, "PATCH requests/<request_name:name>", "edit", "request edit --priority 7",
        body={"priority": 7}, form={"priority": 7},
    ),
    "resources": Calls(
        _changeable, "PATCH requests/<request_name:name>", "edit",
        "request edit --memory-mb 3000 --category-throttles Merge=3",
        body=RESOURCES, form=RESOURCES | {"category_throttles": "Merge=3"},
    ),
    "hold a DAG": Calls(_dag(), "POST dags/<uuid:dag_id>/hold", "hold", "dag hold"),
    "release a DAG": Calls(_dag(), "POST dags/<uuid:dag_id>/release", "release", "dag release"),
    "remove a DAG": Calls(_dag(), "POST dags/<uuid:dag_id>/remove", "remove", "dag remove"),
    "rescue": Calls(_rescuable, "POST requests/<request_name:name>/rescue", "rescue", "request rescue"),
    "rescue a DAG": Calls(
        _dag(DAGStatus.REMOVED), "POST dags/<uuid:dag_id>/rescue", "rescue", "dag rescue"
    ),
    "acknowledge an alert": Calls(
        _alert, "POST alerts/<int:alert_id>/acknowledge", "acknowledge", "alert acknowledge"
    ),
    "lift a quarantine": Calls(
        _quarantined, "POST quarantine/<int:replica_id>/lift", "lift", "quarantine lift"
    ),
    "drain a schedd": Calls(_schedd, "POST schedds/<schedd_name:name>/drain", "drain", "schedd drain"),
    "fence a schedd": Calls(_lost, "POST schedds/<schedd_name:name>/fence", "fence", "schedd fence"),
    "enable a schedd": Calls(_schedd, "POST schedds/<schedd_name:name>/enable", "enable", "schedd enable"),
}  # fmt: skip

CREATE = ("POST requests/<request_name:name>/restart", "POST dags/<uuid:dag_id>/rescue")


def _identity(row: Any) -> str:
    return str(row.request_name if isinstance(row, Request) else row.pk)


def by_rest(client: APIClient, calls: Calls, row: Any, why: str) -> bool:
    method, _, route = calls.rest.partition(" ")
    parts = [_identity(row) if part.startswith("<") else part for part in route.split("/")]
    body = json.dumps(calls.body | {"reason": why})
    answer = client.generic(method, f"/api/v1/{'/'.join(parts)}", body, content_type="application/json")
    done = 201 if calls.rest in CREATE else 200
    assert answer.status_code == (done if why.strip() else 422), answer.content
    assert (answer.headers.get(MESSAGE_HEADER, "") != "") == (answer.status_code == done)
    return answer.status_code == done


def by_console(client: Client, calls: Calls, row: Any, why: str) -> bool:
    if calls.button == "rescue":
        row = Request.objects.get(workflow=row.workflow_id)
    return bool(press(client, row, calls.button, reason=why, **calls.form).status_code == 302)


def by_shell(client: object, calls: Calls, row: Any, why: str) -> bool:
    command, action, *options = calls.command.split()
    try:
        call_command(command, action, _identity(row), *options, "--reason", why)
    except CommandError as refused:
        if "reason" in str(refused):
            return False
        raise
    return True


def test_every_endpoint_that_steers_has_its_line() -> None:
    steered = ("requests/<", "dags/<", "schedds/<", "alerts/<", "quarantine/<")
    writing = {
        f"{method} {route}"
        for route, view in endpoints()
        for method in set(view.roles) - {"GET", "DELETE"}  # DELETE of a request is its abort
        if route.startswith(steered)
    }
    assert writing == {calls.rest for calls in ACTIONS.values()}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("call", [by_rest, by_console, by_shell])
def test_an_action_requires_a_reason_and_records_the_actor(
    call: Callable[..., bool],
    action: str,
    operator: APIClient,
    console: Client,
    settings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.SCHEDDS, settings.SUBMIT_ROOT = [SCHEDD], str(tmp_path)
    monkeypatch.setenv("WMS2_PERSON", "sam")
    calls = ACTIONS[action]
    row = calls.row()
    client, actor = {
        by_rest: (operator, "user:olga"),
        by_console: (console, "user:adam"),
        by_shell: (None, "user:sam"),
    }[call]
    before = AuditEvent.objects.count()

    assert not call(client, calls, row, "  ")
    assert AuditEvent.objects.count() == before
    assert call(client, calls, row, "because")

    kept = AuditEvent.objects.order_by("id")[before:]
    assert {event.actor for event in kept} == {actor}
    assert all(event.reason.endswith("because") for event in kept)
