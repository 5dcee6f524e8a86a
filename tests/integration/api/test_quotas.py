"""Quotas: read by REST, changed through REST, console and shell, with a reason and an audit row each."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from dags_app.states import DAGStatus
from requests_app.models import Quota
from requests_app.services.quotas import LIMITS, change_quota
from requests_app.states import RequestStatus as S
from tests.integration.admin.test_actions import press
from tests.integration.factories import ago, make_dag, make_request, make_round, make_user, make_workflow
from wms2_project.access.roles import Role
from wms2_project.models import AuditEvent, GateNews

pytestmark = pytest.mark.django_db
ANA = "/api/v1/quotas/requestor/ana"
WHY = {"reason": "a campaign"}


def quota(operator: APIClient, name: str, scope: str = "requestor") -> dict[str, Any]:
    found = operator.get("/api/v1/quotas").json()["quotas"]
    (one,) = [row for row in found if (row["scope"], row["name"]) == (scope, name)]
    return dict(one)


def test_usage_stands_next_to_the_limit(operator: APIClient) -> None:
    flow = make_workflow(input_dataset=None, total_events=10**6, size_per_event_kb=3.0, filter_efficiency=0.5)
    active = make_request(status=S.ACTIVE, workflow=flow)
    make_dag(make_round(flow, jobs=80), total_nodes=100, nodes_done=25)
    held = make_request(status=S.HELD)  # its jobs run on
    make_dag(make_round(held.workflow, jobs=7), total_nodes=10, nodes_done=0)
    waiting = make_request(status=S.QUEUED)  # its DAG is made and waits for room
    make_dag(make_round(waiting.workflow, jobs=900), status=DAGStatus.READY, submitted_at=None)
    type(active).objects.filter(pk=active.pk).update(created_at=ago(hours=2))

    body = quota(operator, "ana")

    assert body["usage"] == {
        "open_requests": 3, "submissions_per_hour": 2, "queued_jobs": 67, "storage_gb": 6,
    }  # fmt: skip
    assert body["limits"] == quota(operator, "*")["limits"]
    assert (body["own"], body["version"], quota(operator, "*")["usage"]) == ([], 0, None)


def test_a_limit_of_ones_own_outranks_the_default_until_it_is_null(operator: APIClient) -> None:
    answer = operator.patch(ANA, WHY | {"open_requests": 7})
    assert (answer.status_code, answer["ETag"]) == (200, '"1"')
    assert answer.json()["limits"]["open_requests"] == 7
    assert answer.json()["own"] == ["open_requests"]
    operator.patch("/api/v1/quotas/requestor/*", WHY | {"open_requests": 50, "queued_jobs": 60})
    assert (
        quota(operator, "ana")["limits"] | {"open_requests": 7, "queued_jobs": 60}
        == quota(operator, "ana")["limits"]
    )
    body = operator.patch(ANA, WHY | {"open_requests": None}).json()
    assert (body["limits"]["open_requests"], body["own"]) == (50, [])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("requestor/ana", {"open_requests": -1}, 422),
        ("requestor/ana", {"open_requests": 1.5}, 422),
        ("requestor/ana", {"storage_gb": 10**13}, 422),
        ("requestor/ana", {"colour": 1}, 422),
        ("requestor/ana", {}, 422),
        ("requestor/*", {"open_requests": None}, 422),
        ("requestor/a..b", {"open_requests": 1}, 422),
        ("team/ana", {"open_requests": 1}, 404),
        ("requestor/a%00b", {"open_requests": 1}, 404),
        ("group/" + "g" * 101, {"open_requests": 1}, 404),
    ],
)
def test_an_invalid_quota_is_refused(
    operator: APIClient, path: str, body: dict[str, Any], status: int
) -> None:
    answer = operator.patch(f"/api/v1/quotas/{path}", WHY | body)
    assert answer.status_code == status, answer.content
    assert not Quota.objects.exclude(name="*").exists()


def test_a_stale_change_is_refused(operator: APIClient) -> None:
    operator.patch(ANA, WHY | {"open_requests": 7})
    answer = operator.patch(ANA, WHY | {"open_requests": 8}, headers={"If-Match": '"0"'})
    assert answer.status_code == 412
    assert Quota.objects.get(name="ana").open_requests == 7
    assert operator.patch(ANA, WHY | {"open_requests": 8}, headers={"If-Match": '"1"'}).status_code == 200


Change = Callable[[APIClient, Client, str], bool]


def by_rest(api: APIClient, console: Client, why: str) -> bool:
    body = json.dumps({"queued_jobs": 9, "reason": why})
    return bool(api.generic("PATCH", ANA, body, content_type="application/json").status_code == 200)


def by_list(api: APIClient, console: Client, why: str) -> bool:
    body = {"scope": "requestor", "name": "ana", "queued_jobs": 9, "reason": why, "_confirmed": "1"}
    return bool(console.post(reverse("admin:requests_app_quota_add_quota"), body).status_code == 302)


def by_page(api: APIClient, console: Client, why: str) -> bool:
    row = Quota.objects.get_or_create(scope="requestor", name="ana")[0]
    return bool(press(console, row, "set", queued_jobs=9, reason=why).status_code == 302)


def by_shell(api: APIClient, console: Client, why: str) -> bool:
    try:
        call_command("quota", "set", "requestor", "ana", "--queued-jobs", "9", "--reason", why)
    except CommandError as refused:
        if "reason" in str(refused):
            return False
        raise
    return True


@pytest.mark.parametrize("change", [by_rest, by_list, by_page, by_shell])
def test_every_interface_requires_a_reason_and_records_the_actor(
    operator: APIClient, console: Client, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    monkeypatch.setenv("WMS2_PERSON", "sue")
    assert not change(operator, console, "")
    before = AuditEvent.objects.count()
    assert change(operator, console, "a campaign")
    assert Quota.objects.get(name="ana").queued_jobs == 9
    (event,) = AuditEvent.objects.order_by("id")[before:]
    assert (event.action, event.target, event.reason) == ("change quota", "quota requestor ana", "a campaign")
    assert event.actor in ("user:olga", "user:adam", "user:sue")
    assert event.detail["changes"]["queued_jobs"] == 9
    assert set(GateNews.objects.values_list("gate", flat=True)) == {"quota"}


def test_the_console_lists_usage_and_limits(console: Client) -> None:
    change_quota(
        scope="group", name="higgs", changes={"open_requests": 1234}, actor="user:olga", reason="test"
    )
    make_request(group="higgs")
    page = console.get("/admin/requests_app/quota/").content.decode()
    assert "1 of 1,234" in page
    assert "20,000" in page
    row = Quota.objects.get(name="higgs")
    assert "1 of 1,234" in console.get(f"/admin/requests_app/quota/{row.pk}/change/").content.decode()
    browser = Client()
    browser.force_login(make_user("ana", role=Role.REQUESTOR, is_staff=True))
    assert browser.get("/admin/requests_app/quota/").status_code == 403


def test_the_command_lists_accounts_with_a_quota_or_open_requests() -> None:
    make_request(requestor="bob")
    out = StringIO()
    call_command("quota", "show", stdout=out)
    lines = out.getvalue().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["group *", "requestor *", "requestor bob"]
    assert "open_requests 1/20,000" in lines[2]


def test_the_shell_refuses_a_value_that_is_not_a_number() -> None:
    with pytest.raises(CommandError, match="open_requests: This must be a whole number"):
        call_command("quota", "set", "requestor", "ana", "--open-requests", "many", "--reason", "test")


@pytest.mark.parametrize("word", ["default", "null"])
def test_the_shell_resets_a_limit_to_the_default(word: str) -> None:
    change_quota(scope="requestor", name="ana", changes={"queued_jobs": 9}, actor="user:olga", reason="test")
    call_command("quota", "set", "requestor", "ana", "--queued-jobs", word, "--reason", "test")
    assert Quota.objects.get(name="ana").queued_jobs is None


def test_every_limit_has_a_column() -> None:
    assert set(LIMITS) <= {field.name for field in Quota._meta.get_fields()}
