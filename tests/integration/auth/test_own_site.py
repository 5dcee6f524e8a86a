"""A site's admins operate their own site only, over REST and in the console."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from sites_app.models import Site
from tests.integration.conftest import ApiAs
from tests.integration.factories import OWN_SITE, make_request, make_site, make_user
from wms2_project.access.roles import Role, role_of, sites_of

pytestmark = pytest.mark.django_db
OTHER = "T1_US_FNAL"


@pytest.fixture(autouse=True)
def _sites() -> None:
    make_site(OWN_SITE)
    make_site(OTHER)


@pytest.mark.parametrize("action", ["drain", "enable"])
def test_only_the_own_site_obeys(api_as: ApiAs, action: str) -> None:
    client = api_as(Role.SITE_ADMIN, "sam")
    allowed = client.post(f"/api/v1/sites/{OWN_SITE}/{action}", {"reason": "cooling"})
    refused = client.post(f"/api/v1/sites/{OTHER}/{action}", {"reason": "cooling"})
    assert (allowed.status_code, refused.status_code) == (200, 403)
    assert OTHER in refused.json()["detail"]
    assert Site.objects.get(pk=OTHER).version == 0


def test_a_site_admin_operates_nothing_else(api_as: ApiAs) -> None:
    client = api_as(Role.SITE_ADMIN)
    name = make_request().request_name
    assert client.post(f"/api/v1/requests/{name}/stop", {"reason": "r"}).status_code == 403
    assert client.patch("/api/v1/admission/config", {"reason": "r", "paused": True}).status_code == 403


def test_the_console_offers_the_own_site_only() -> None:
    browser = Client()
    browser.force_login(make_user("sam", role=Role.SITE_ADMIN))
    answers = {"_confirmed": "1", "reason": "cooling", "until": ""}
    for site in (OWN_SITE, OTHER):
        browser.post(reverse("admin:sites_app_site_drain", args=[site]), answers)
    assert {row.name: row.status for row in Site.objects.all()} == {OWN_SITE: "draining", OTHER: "enabled"}


def test_one_person_may_have_several_sites() -> None:
    user = make_user(role=Role.SITE_ADMIN)
    user.groups.create(name=f"site_admin:{OTHER}")
    user.groups.create(name="site_admin:no site")
    assert role_of(user) is Role.SITE_ADMIN
    assert sites_of(user) >= {OWN_SITE, OTHER}


def test_unknown_groups_give_nothing() -> None:
    user = make_user()
    user.groups.create(name="operators")
    user.groups.create(name="admin:x")
    assert role_of(user) is Role.ANONYMOUS
