"""Disabling and maintenance are operations, like drain and enable."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from sites_app.models import Site
from sites_app.selectors import usable_sites
from sites_app.services.returning import returning_sites
from tests.integration.conftest import ApiAs
from tests.integration.factories import OWN_SITE, make_site, make_user, make_workflow
from wms2_project.access.roles import Role
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
URL = f"/api/v1/sites/{OWN_SITE}"
WHY = {"reason": "new roof"}


@pytest.fixture
def site() -> Site:
    return make_site(OWN_SITE)


def is_usable(after: timedelta = timedelta()) -> bool:
    return OWN_SITE in usable_sites(workflow=make_workflow(), now=timezone.now() + after).names


@pytest.mark.usefixtures("site")
def test_a_disabled_site_takes_no_work_until_it_is_enabled(operator: APIClient) -> None:
    closed = operator.post(f"{URL}/disable", WHY).json()
    assert (closed["status"], closed["status_by"], closed["status_reason"]) == (
        "disabled", "user:olga", "new roof",
    )  # fmt: skip
    assert not is_usable(after=timedelta(days=1000))
    assert AuditEvent.objects.get(action="disabled").reason == "new roof"
    operator.post(f"{URL}/enable", WHY)
    assert is_usable()


@pytest.mark.usefixtures("site")
def test_a_maintenance_with_an_end_returns_by_itself(operator: APIClient) -> None:
    until = timezone.now() + timedelta(hours=2)
    answer = operator.post(f"{URL}/maintenance", WHY | {"until": until.isoformat()})
    assert (answer.status_code, answer.json()["status"]) == (200, "maintenance")
    assert not is_usable()
    away = returning_sites(workflow=make_workflow(), now=timezone.now())[OWN_SITE]
    assert (away.until, away.cause) == (until, "in maintenance")
    assert is_usable(after=timedelta(hours=3))


@pytest.mark.usefixtures("site")
def test_a_maintenance_without_an_end_lasts_until_it_is_enabled(operator: APIClient) -> None:
    operator.post(f"{URL}/maintenance", WHY)
    assert not is_usable(after=timedelta(days=1000))
    assert not returning_sites(workflow=make_workflow(), now=timezone.now())
    operator.post(f"{URL}/enable", WHY)
    assert is_usable()


@pytest.mark.usefixtures("site")
def test_a_maintenance_does_not_end_in_the_past(operator: APIClient) -> None:
    past = (timezone.now() - timedelta(minutes=1)).isoformat()
    answer = operator.post(f"{URL}/maintenance", WHY | {"until": past})
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["until"])
    assert is_usable()


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("name", ["disable", "maintenance"])
def test_admins_close_their_own_site_and_do_not_undo_an_operator(
    api_as: ApiAs, operator: APIClient, name: str
) -> None:
    make_site("T2_DE_DESY")
    admin = api_as(Role.SITE_ADMIN, "sam")
    assert admin.post(f"/api/v1/sites/T2_DE_DESY/{name}", WHY).status_code == 403
    assert admin.post(f"{URL}/{name}", WHY).status_code == 200
    assert admin.post(f"{URL}/enable", WHY).status_code == 200
    assert operator.post(f"{URL}/{name}", WHY).status_code == 200
    assert admin.post(f"{URL}/enable", WHY).status_code == 403
    assert api_as(Role.REQUESTOR, "rita").post(f"{URL}/{name}", WHY).status_code == 403


def test_the_console_and_the_shell_have_both(site: Site) -> None:
    browser = Client()
    browser.force_login(make_user("olga", role=Role.OPERATOR))
    browser.post(reverse("admin:sites_app_site_maintenance", args=[OWN_SITE]), {"_confirmed": "1", **WHY})
    site.refresh_from_db()
    assert site.status == "maintenance"
    call_command("site", "disable", OWN_SITE, "--reason", "for good")
    site.refresh_from_db()
    assert (site.status, site.status_reason) == ("disabled", "for good")
