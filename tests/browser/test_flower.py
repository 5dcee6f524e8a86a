"""Flower in Chromium: a browser without a session logs in at the console and comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewContext, PageAs
from tests.browser.guarding import Guard
from tests.browser.serving import Server
from tests.integration.factories import make_user
from wms2_project.access.roles import Role

PASSWORD = "correct-horse-battery"


@pytest.fixture
def flower(server: Server) -> Iterator[str]:
    """Flower; name it before the page, which asks it for news until it is closed."""
    server.start_flower()
    yield server.flower
    server.stop("flower")


def expect_flower(page: Page, address: str) -> None:
    page.wait_for_url(address)
    expect(page.get_by_role("link", name="Broker")).to_be_visible()


def test_a_browser_without_a_session_comes_back_after_the_login(
    flower: str, new_context: NewContext, guards: list[Guard]
) -> None:
    person = make_user(role=Role.OPERATOR, is_staff=True)
    person.set_password(PASSWORD)
    person.save()
    page = new_context().new_page()
    guards[0].expect("favicon.ico")  # Flower has none
    page.goto(f"{flower}/tasks?limit=5")
    page.get_by_label("Username").fill(person.username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect_flower(page, f"{flower}/tasks?limit=5")
    assert requests.get(f"{flower}/api/workers", timeout=60).status_code == 401


def test_the_health_page_leads_to_flower(flower: str, page_as: PageAs) -> None:
    page = page_as(Role.OPERATOR)
    page.goto("/admin/console/health")
    page.get_by_role("link", name="Tasks in Flower").click()
    expect_flower(page, f"{flower}/")
