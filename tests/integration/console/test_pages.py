"""The console's pages on a fleet: they answer with a fixed number of queries, by role, and hide secrets."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console.page import Page
from console.pages import PAGES
from console.settings_page.declarations import DOCUMENT, declarations, is_secret, meanings, settings
from requests_app.models import Alert
from tests.integration.factories import OWN_SITE, make_site, make_user
from wms2_project.access.roles import Role
from wms2_project.console import address_of
from wms2_project.models import AuditEvent

SITE = "T2_US_Purdue"
SUBJECTS = {"site": [SITE]}
pytestmark = pytest.mark.django_db


def login(role: Role) -> Client:
    browser = Client()
    browser.force_login(make_user(role=role, is_staff=True))
    return browser


def address(page: Page) -> str:
    return reverse(f"console:{page.name}", args=SUBJECTS.get(page.name, []))


def test_every_page_shows_a_fleet_and_leaves_out_what_a_role_may_not_see() -> None:
    call_command("seed_fleet", requests=60)
    operator, viewer = login(Role.OPERATOR), login(Role.VIEWER)
    for page in PAGES:
        with CaptureQueriesContext(connection) as used:
            shown = operator.get(address(page))
        assert shown.status_code == 200, page.name
        assert len(used) < 40, f"{page.name}: {len(used)} queries"
        allowed = page.fragment.role <= Role.VIEWER
        assert viewer.get(address(page)).status_code == (200 if allowed else 403), page.name
    html = operator.get(reverse("console:alerts")).content.decode()
    alert = Alert.objects.filter(acknowledged_at=None, closed_at=None).first()
    assert alert is not None
    assert f"{reverse('console:guide')}#{alert.kind}" in html
    assert reverse("admin:requests_app_alert_acknowledge", args=[alert.pk]) in html
    assert "Acknowledge</a>" not in viewer.get(reverse("console:alerts")).content.decode()


def test_every_page_explains_that_it_is_empty() -> None:
    make_site(SITE)
    operator = login(Role.OPERATOR)
    for page in PAGES:
        assert operator.get(address(page)).status_code == 200, page.name
    assert "No request waits." in operator.get(reverse("console:admission")).content.decode()


def test_an_unknown_site_is_not_found() -> None:
    assert login(Role.VIEWER).get(reverse("console:site", args=["T2_XX_Unknown"])).status_code == 404


def test_admins_of_a_site_find_it_first_and_have_its_buttons_only() -> None:
    make_site(OWN_SITE)
    make_site(SITE)
    browser = login(Role.SITE_ADMIN)
    assert f'data-live="own-sites" data-of="{OWN_SITE}"' in _text(browser, reverse("console:sites"))
    drain = address_of("admin:sites_app_site_drain", OWN_SITE)
    assert drain in _text(browser, reverse("console:site", args=[OWN_SITE]))
    assert browser.get(drain).status_code == 200, "the quoted address of its own site"
    assert browser.get(address_of("admin:sites_app_site_drain", SITE)).status_code == 403
    assert "/drain" not in _text(browser, reverse("console:site", args=[SITE]))


def _text(browser: Client, url: str) -> str:
    return browser.get(url).content.decode()


def test_the_audit_is_filtered_by_its_address_and_shows_what_differs() -> None:
    AuditEvent.objects.create(
        actor="user:ana", action="change", target="first", reason="sooner",
        detail={"changes": {"priority": 9}, "previous": {"priority": 5}},
    )  # fmt: skip
    AuditEvent.objects.create(actor="user:olga", action="stop", target="<b>second</b>", reason="r")
    html = _text(login(Role.OPERATOR), f"{reverse('console:audit')}?actor=user:ana")
    assert "<del>5</del>" in html
    assert "<ins>9</ins>" in html
    assert "second" not in html
    assert "&lt;b&gt;second" in _text(login(Role.OPERATOR), reverse("console:audit"))


def test_settings_hide_secrets_and_say_where_a_value_is_from() -> None:
    found = {
        one.name: one
        for one in settings(
            {"SECRET_KEY": "s3cret", "DATABASE_URL": "postgres://u:pw@db/wms2", "WMS2_LOG_LEVEL": "DEBUG"}
        )
    }
    assert found["SECRET_KEY"].value == "hidden"
    assert found["DATABASE_URL"].value == "postgres://…@db/wms2"
    assert (found["WMS2_LOG_LEVEL"].value, found["WMS2_LOG_LEVEL"].source) == ("DEBUG", "environment")
    assert found["WMS2_SWEEP_INTERVAL_SEC"].source == "default"
    assert [one.name for one in declarations() if "PASSWORD" in one.name and not is_secret(one.name)] == []


def test_no_secret_of_this_process_is_on_the_settings_page(settings: object) -> None:
    html = _text(login(Role.OPERATOR), reverse("console:settings"))
    for name in ("SECRET_KEY", "AUDIT_KEY", "CALLBACK_SECRET"):
        value = str(getattr(settings, name, "") or "")
        assert not value or value not in html, name


def test_every_setting_is_documented() -> None:
    known = meanings()
    missing = sorted(one.name for one in declarations() if one.name not in known)
    assert missing == [], f"describe them in {DOCUMENT.name}"


def test_people_without_a_role_see_no_page() -> None:
    browser = Client()
    browser.force_login(User.objects.create_user("roleless", is_staff=True))
    assert browser.get(reverse("console:sites"))["Location"].startswith(reverse("admin:login"))
