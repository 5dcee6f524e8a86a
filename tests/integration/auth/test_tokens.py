"""API tokens over REST, and the command that manages access."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from rest_framework.test import APIClient

from tests.integration.conftest import ApiAs
from tests.integration.factories import ago, make_token, make_user
from wms2_project.access.roles import Role
from wms2_project.models import ApiToken, AuditEvent, Identity

pytestmark = pytest.mark.django_db
URL = "/api/v1/tokens"


def works(token: str) -> bool:
    answer = Client().get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code == 200


def test_a_token_is_shown_once_works_and_is_stored_as_a_hash(viewer: APIClient) -> None:
    made = viewer.post(URL, {"name": "laptop", "days": 7, "reason": "my scripts"})
    assert made.status_code == 201, made.json()
    text = made.json()["token"]
    assert works(text)
    listed = viewer.get(URL).json()["results"]
    mine = next(row for row in listed if row["name"] == "laptop")
    assert mine["last_used_at"]
    assert mine["expires_at"]
    assert text not in str(listed)
    assert text not in str(list(ApiToken.objects.values()))


def test_making_it_again_ends_the_older_one(viewer: APIClient) -> None:
    first, second = (viewer.post(URL, {"name": "a", "reason": "r"}).json()["token"] for _ in range(2))
    assert (works(first), works(second)) == (False, True)


def test_a_revoked_token_stops_at_once(viewer: APIClient) -> None:
    made = viewer.post(URL, {"name": "a", "reason": "r"}).json()
    gone = viewer.delete(f"{URL}/{made['id']}", {"reason": "lost the laptop"})
    assert gone.json()["revoked_at"]
    assert not works(made["token"])
    last = AuditEvent.objects.order_by("-id").first()
    assert last is not None
    assert (last.action, last.actor, last.reason) == ("revoke token", "user:vera", "lost the laptop")


def test_a_token_never_makes_one_that_outlives_it() -> None:
    client = APIClient()
    ends = ago(days=-1)
    token = make_token(make_user(role=Role.VIEWER), expires_at=ends)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    for days in ({}, {"days": 30}):
        client.post(URL, {"name": "longer", "reason": "r"} | days)
        assert ApiToken.objects.get(name="longer").expires_at == ends


def test_others_tokens_are_out_of_sight_except_for_admins(api_as: ApiAs, viewer: APIClient) -> None:
    make_token(make_user("bob"))
    other = ApiToken.objects.get(user__username="bob")
    assert viewer.get(f"{URL}/{other.pk}").status_code == 404
    assert viewer.delete(f"{URL}/{other.pk}", {"reason": "r"}).status_code == 404
    assert {row["user"] for row in viewer.get(URL).json()["results"]} == {"vera"}
    admin = api_as(Role.ADMIN, "adam")
    assert {row["user"] for row in admin.get(f"{URL}?user=bob").json()["results"]} == {"bob"}
    assert admin.delete(f"{URL}/{other.pk}", {"reason": "left"}).status_code == 200


def test_only_admins_make_tokens_for_others(api_as: ApiAs, operator: APIClient) -> None:
    make_user("robot", role=Role.REQUESTOR)
    body = {"name": "cron", "user": "robot", "reason": "nightly"}
    assert operator.post(URL, body).status_code == 403
    admin = api_as(Role.ADMIN, "adam")
    assert works(admin.post(URL, body).json()["token"])
    assert admin.post(URL, body | {"user": "unknown"}).status_code == 422


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "a"}, "reason"),
        ({"reason": "r"}, "name"),
        ({"name": "a\nb", "reason": "r"}, "name"),
        ({"name": "a", "reason": "r", "days": 0}, "days"),
        ({"name": "a", "reason": "r", "digest": "0"}, "digest"),
    ],
)
def test_a_wrong_token_is_refused_by_field(viewer: APIClient, body: dict[str, Any], field: str) -> None:
    answer = viewer.post(URL, body)
    assert (answer.status_code, set(answer.json()["errors"])) == (422, {field})


def access(*arguments: str) -> str:
    out = StringIO()
    call_command("access", *arguments, "--reason", "a test", stdout=out)
    return out.getvalue().strip()


def test_a_robot_is_made_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMS2_PERSON", "sam")
    access("roles", "robot", "requestor", "site_admin:T2_CH_CERN")
    token = access("token", "robot", "cron", "--days", "30")
    me = Client().get("/api/v1/me", headers={"Authorization": f"Bearer {token}"}).json()
    assert (me["role"], me["sites"]) == ("site_admin", ["T2_CH_CERN"])
    access("link", "robot", "CN=Robot,DC=ch")
    assert Identity.objects.get().subject == "/DC=ch/CN=Robot"
    access("unlink", "/DC=ch/CN=Robot")
    access("revoke", "robot", "cron")
    assert not works(token)
    assert AuditEvent.objects.filter(actor="user:sam").count() == 5


def test_a_token_is_issued_and_revoked_by_its_own_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMS2_PERSON", "sam")
    make_user("robot", role=Role.VIEWER)
    out = StringIO()
    call_command("token", "issue", "--user", "robot", "--name", "cron", "--reason", "nightly", stdout=out)
    text = out.getvalue().strip()
    assert works(text)
    call_command("token", "revoke", str(ApiToken.objects.get().pk), "--reason", "lost", stdout=StringIO())
    assert not works(text)


def test_a_token_is_revoked_with_the_reason_in_the_query(viewer: APIClient) -> None:
    made = viewer.post(URL, {"name": "a", "reason": "r"}).json()
    assert viewer.delete(f"{URL}/{made['id']}?reason=lost").status_code == 200
    assert not works(made["token"])


@pytest.mark.parametrize(
    "arguments",
    [("roles", "ana", "emperor"), ("token", "unknown", "x"), ("revoke", "ana", "x"), ("unlink", "/CN=x")],
)
def test_commands_on_missing_objects_are_refused(arguments: tuple[str, ...]) -> None:
    make_user("ana")
    with pytest.raises(CommandError):
        access(*arguments)
    assert not User.objects.get().groups.exists()


def test_an_unknown_role_is_named_and_creates_no_account() -> None:
    with pytest.raises(CommandError, match="roles: there is no role operater"):
        access("roles", "newcomer", "operater")
    assert not User.objects.filter(username="newcomer").exists()
