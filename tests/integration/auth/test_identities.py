"""Identities are linked and unlinked by admins: over REST, in the console and in the shell."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from tests.integration.conftest import ApiAs
from tests.integration.factories import make_user
from wms2_project.access.roles import Role
from wms2_project.models import X509, AuditEvent, Identity

pytestmark = pytest.mark.django_db
URL = "/api/v1/identities"
PAGES = "admin:wms2_project_identity"
DN = "/DC=ch/CN=Robot"


@pytest.fixture
def admin(api_as: ApiAs) -> APIClient:
    make_user("robot", role=Role.REQUESTOR)
    return api_as(Role.ADMIN, "adam")


def link(admin: APIClient, **changes: str) -> int:
    answer = admin.post(URL, {"user": "robot", "subject": "CN=Robot,DC=ch", "reason": "cron"} | changes)
    assert answer.status_code == 201, answer.json()
    return int(answer.json()["id"])


def test_a_linked_certificate_is_listed_and_unlinked(admin: APIClient) -> None:
    made = link(admin)
    (row,) = admin.get(URL, {"user": "robot"}).json()["results"]
    assert (row["id"], row["user"], row["issuer"], row["subject"]) == (made, "robot", X509, DN)
    gone = admin.delete(f"{URL}/{made}", {"reason": "lost"})
    assert (gone.status_code, gone.json()["subject"]) == (200, DN)
    assert not Identity.objects.exists()
    actions = AuditEvent.objects.filter(target="person robot").order_by("id").values_list("action", flat=True)
    assert [*actions] == ["link", "unlink"]


def test_an_identity_belongs_to_one_account(admin: APIClient) -> None:
    link(admin)
    make_user("ana", role=Role.VIEWER)
    answer = admin.post(URL, {"user": "ana", "subject": DN, "reason": "mine"})
    assert (answer.status_code, answer.json()["detail"]) == (409, f"{DN} is already linked")


@pytest.mark.parametrize(("field", "value"), [("user", "missing"), ("subject", "")])
def test_a_wrong_field_is_named(admin: APIClient, field: str, value: str) -> None:
    answer = admin.post(URL, {"user": "robot", "subject": DN, "reason": "cron", field: value})
    assert (answer.status_code, [*answer.json()["errors"]]) == (422, [field])
    assert not Identity.objects.exists()


def test_the_console_links_and_unlinks(console: Client) -> None:
    make_user("robot", role=Role.REQUESTOR)
    form = {"_confirmed": "1", "user": "robot", "subject": DN, "issuer": X509, "reason": "cron"}
    shown = console.post(reverse(f"{PAGES}_link"), form, follow=True).content.decode()
    assert f"{DN} is linked to robot" in shown
    address = reverse(f"{PAGES}_unlink", args=[Identity.objects.get().pk])
    console.post(address, {"_confirmed": "1", "reason": "lost"})
    assert not Identity.objects.exists()


def test_the_shell_links_by_account_and_unlinks_by_id() -> None:
    make_user("robot", role=Role.REQUESTOR)
    out = StringIO()
    call_command("identity", "link", "--user", "robot", "--subject", DN, "--reason", "cron", stdout=out)
    assert f"{DN} is linked to robot." in out.getvalue()
    call_command("identity", "unlink", str(Identity.objects.get().pk), "--reason", "lost", stdout=out)
    with pytest.raises(CommandError, match="There is no identity 1"):
        call_command("identity", "unlink", "1" * 9, "--reason", "lost", stdout=out)
