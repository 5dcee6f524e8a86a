"""The audit over REST: for operators, filtered, in pages, and without anything secret."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from rest_framework.test import APIClient

from tests.integration.conftest import ApiAs
from tests.integration.factories import ago, make_user
from wms2_project.access.audit import record
from wms2_project.access.people import link_identity
from wms2_project.access.roles import Role
from wms2_project.access.tokens import issue_token
from wms2_project.api.audit import AuditFilter
from wms2_project.models import X509, AuditEvent

pytestmark = pytest.mark.django_db
URL = "/api/v1/audit"
SUBJECT = "/DC=org/CN=Bob"
PASSWORD = "correct horse 7 battery"


def did(actor: str = "user:ana", action: str = "stop", target: str = "a", **detail: Any) -> int:
    record(actor=actor, action=action, target=target, reason="because", **detail)
    return AuditEvent.objects.latest("id").pk


def listed(client: APIClient, **query: Any) -> list[int]:
    answer = client.get(URL, query)
    assert answer.status_code == 200, answer.content
    return [row["id"] for row in answer.json()["results"]]


def test_an_event_is_shown_with_actor_change_and_reason(operator: APIClient) -> None:
    did(before="active")
    row = operator.get(URL).json()["results"][0]
    detail = {name: row[name] for name in ("actor", "action", "target", "reason", "detail")}
    assert detail == {
        "actor": "user:ana", "action": "stop", "target": "a", "reason": "because",
        "detail": {"before": "active"},
    }  # fmt: skip
    assert set(row) == {*detail, "id", "at", "request_id", "number"}


def test_events_are_filtered_by_actor_action_target_and_time(operator: APIClient) -> None:
    one, two, three = did(), did(actor="user:bob"), did(action="abort", target="b")
    assert listed(operator)[:3] == [three, two, one]
    assert listed(operator, actor="user:bob") == [two]
    assert listed(operator, action="stop", ordering="at") == [one, two]
    assert listed(operator, target="b") == [three]
    assert listed(operator, actor="user:ana", action="abort") == [three]
    assert listed(operator, before=ago(days=1).isoformat()) == []
    assert set(listed(operator, after=ago(days=1).isoformat())) >= {one, two, three}
    assert operator.get(URL, {"who": "ana"}).status_code == 422


def test_pages_are_walked_without_loss(operator: APIClient) -> None:
    made = [did(target="walked") for _ in range(5)]
    seen, url = [], f"{URL}?target=walked&page_size=2"
    while url:
        body = operator.get(url).json()
        seen += [row["id"] for row in body["results"]]
        url = body["next"]
    assert seen == made[::-1]


@pytest.mark.parametrize(("role", "shown"), [(Role.OPERATOR, False), (Role.ADMIN, True)])
def test_whose_certificate_is_whose_is_for_admins(api_as: ApiAs, role: Role, *, shown: bool) -> None:
    link_identity(user=make_user("bob"), issuer=X509, subject=SUBJECT, actor="user:adam", reason="r")
    (row,) = api_as(role).get(URL, {"action": "link"}).json()["results"]
    assert (row["target"], ("subject" in row["detail"])) == ("person bob", shown)
    assert (SUBJECT in str(row)) == shown


def test_no_secret_is_shown(api_as: ApiAs, console: Client) -> None:
    bob = make_user("bob")
    text = issue_token(user=bob, name="t", actor="user:adam", reason="r")
    new = {"usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}
    console.post(f"/admin/auth/user/{bob.pk}/password/", new)
    shown = api_as(Role.ADMIN).get(URL).content.decode()
    assert "issue token" in shown
    assert "change person" in shown
    for secret in (text, text[-8:], PASSWORD, User.objects.get(pk=bob.pk).password):
        assert secret not in shown


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SITE_ADMIN])
def test_the_console_shows_the_audit_to_the_roles_that_read_it_over_rest(role: Role) -> None:
    did()
    for given, status in ((role, 403), (Role.OPERATOR, 200)):
        browser = Client()
        browser.force_login(make_user(role=given, is_staff=True))
        assert browser.get("/admin/wms2_project/auditevent/").status_code == status


@pytest.mark.parametrize(
    "query", [{}, {"actor": "user:p1"}, {"action": "none"}, {"target": "t7"},
              {"actor": "user:p1", "action": "none"}]
)  # fmt: skip
def test_a_page_of_the_audit_never_reads_it_all(query: dict[str, str]) -> None:
    AuditEvent.objects.bulk_create(
        AuditEvent(actor=f"user:p{n % 50}", action=f"a{n % 5}", target=f"t{n % 100}", reason="r")
        for n in range(3000)
    )
    rows = AuditFilter(query, queryset=AuditEvent.objects.order_by("-at", "-id")).qs[:50]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE wms2_project_auditevent; SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off")
    plan = rows.explain(analyze=True)
    assert "Sort" not in plan, plan
    assert "Rows Removed" not in plan, plan
