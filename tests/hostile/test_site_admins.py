"""A site's admin steers the site, but does not undo what an operator decided about it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from sites_app.models import Site
from sites_app.services.bans import ban_site, in_force
from tests.integration.conftest import ApiAs
from tests.integration.factories import OWN_SITE, make_site, make_user, make_workflow
from wms2_project.access.roles import Role

pytestmark = pytest.mark.django_db
URL = f"/api/v1/sites/{OWN_SITE}"
WHY = {"reason": "the site is fine"}


@pytest.fixture
def site() -> Site:
    return make_site(OWN_SITE)


@pytest.fixture
def clients(api_as: ApiAs, site: Site) -> dict[str, Any]:
    return {"sam": api_as(Role.SITE_ADMIN, "sam"), "olga": api_as(Role.OPERATOR, "olga")}


def soon() -> str:
    return (timezone.now() + timedelta(minutes=1)).isoformat()


def test_an_operators_drain_stays(clients: dict[str, Any], site: Site) -> None:
    clients["olga"].post(f"{URL}/drain", {"reason": "it eats files"})
    enabled = clients["sam"].post(f"{URL}/enable", WHY)
    shortened = clients["sam"].post(f"{URL}/drain", WHY | {"until": soon()})
    assert (enabled.status_code, shortened.status_code) == (403, 403)
    assert "operator" in enabled.json()["detail"]
    site.refresh_from_db()
    assert (site.status, site.drain_until) == ("draining", None)
    assert clients["olga"].post(f"{URL}/enable", WHY).status_code == 200


def test_an_admins_own_drain_ends_by_the_admin(clients: dict[str, Any], site: Site) -> None:
    assert clients["sam"].post(f"{URL}/drain", WHY).status_code == 200
    assert clients["sam"].post(f"{URL}/enable", WHY).status_code == 200
    clients["olga"].post(f"{URL}/drain", {"reason": "it eats files"})
    clients["olga"].post(f"{URL}/enable", WHY)
    assert clients["sam"].post(f"{URL}/drain", WHY).status_code == 200


def test_an_operators_drain_that_is_over_has_no_effect(clients: dict[str, Any], site: Site) -> None:
    clients["olga"].post(f"{URL}/drain", {"reason": "r", "until": soon()})
    Site.objects.update(drain_until=timezone.now() - timedelta(minutes=1))
    assert clients["sam"].post(f"{URL}/enable", WHY).status_code == 200


def test_a_site_an_operator_closed_is_not_opened_by_its_admin(clients: dict[str, Any], site: Site) -> None:
    assert clients["olga"].patch(URL, WHY | {"status": "disabled"}).status_code == 200
    assert clients["sam"].post(f"{URL}/enable", WHY).status_code == 403
    assert clients["sam"].post(f"{URL}/drain", WHY).status_code == 403
    assert clients["sam"].patch(URL, WHY | {"status": "maintenance"}).status_code == 403
    assert clients["sam"].patch(URL, WHY | {"memory_mb_per_core": 2500}).status_code == 200


def test_an_admin_opens_the_site_the_admin_closed(clients: dict[str, Any], site: Site) -> None:
    assert clients["sam"].patch(URL, WHY | {"status": "maintenance"}).status_code == 200
    assert clients["sam"].post(f"{URL}/enable", WHY).status_code == 200


def test_an_operators_ban_stays(clients: dict[str, Any], site: Site) -> None:
    clients["olga"].post(f"{URL}/ban", {"reason": "it eats files"})
    lifted = clients["sam"].delete(f"{URL}/ban", WHY)
    shortened = clients["sam"].post(f"{URL}/ban", WHY | {"until": soon()})
    assert (lifted.status_code, shortened.status_code) == (403, 403)
    (ban,) = in_force(site, now=timezone.now())
    assert (ban.created_by, ban.reason) == ("user:olga", "it eats files")
    assert clients["olga"].delete(f"{URL}/ban", WHY).status_code == 200


def test_bans_of_the_machine_and_of_the_admin_may_be_lifted(clients: dict[str, Any], site: Site) -> None:
    ban_site(site=site, workflow=make_workflow(), reason="r", actor="system:banning", now=timezone.now())
    assert clients["sam"].post(f"{URL}/ban", WHY).status_code == 200
    assert clients["sam"].delete(f"{URL}/ban", WHY).status_code == 200
    assert not in_force(site, now=timezone.now()).exists()


def test_an_operators_ban_for_one_request_does_not_keep_the_site_banned(
    clients: dict[str, Any], site: Site
) -> None:
    now = timezone.now()
    for workflow, by, operator in ((make_workflow(), "user:olga", True), (None, "system:banning", False)):
        ban_site(site=site, workflow=workflow, reason="r", actor=by, now=now, by_operator=operator)
    assert clients["sam"].delete(f"{URL}/ban", WHY).status_code == 200
    assert [ban.created_by for ban in in_force(site, now=timezone.now())] == ["user:olga"]
    assert clients["sam"].delete(f"{URL}/ban", WHY).status_code == 403


def test_the_console_refuses_the_same(clients: dict[str, Any], site: Site) -> None:
    clients["olga"].post(f"{URL}/drain", {"reason": "it eats files"})
    clients["olga"].post(f"{URL}/ban", {"reason": "it eats files"})
    browser = Client()
    browser.force_login(make_user("sid", role=Role.SITE_ADMIN))
    for name in ("enable", "unban"):
        url = reverse(f"admin:sites_app_site_{name}", args=[OWN_SITE])
        browser.post(url, {"_confirmed": "1", "reason": "it is fine", "workflow": ""})
    site.refresh_from_db()
    assert site.status == "draining"
    assert in_force(site, now=timezone.now()).count() == 1
