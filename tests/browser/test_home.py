"""The home page: what it shows, in both themes and on a phone, with pictures of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, PageAs, photograph
from tests.browser.guarding import check_accessible
from wms2_project.access.roles import Role


def open_home(page: Page) -> None:
    page.goto("/admin/")
    expect(page.locator("#wms2-indicator")).to_have_text("boltLive")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_home_page_is_accessible(page_as: PageAs, theme: str, pictures: Path) -> None:
    page = page_as(Role.OPERATOR, color_scheme=theme)
    open_home(page)
    check_accessible(page)
    photograph(page, pictures / f"console-home-{theme}.png")


def test_the_home_page_fits_a_phone(page_as: PageAs) -> None:
    page = page_as(Role.OPERATOR, viewport=PHONE)
    open_home(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_home_page_names_causes_with_an_action(page_as: PageAs) -> None:
    page = page_as(Role.OPERATOR)
    open_home(page)
    cause = page.locator(".wms2-matter").first
    expect(cause).to_contain_text("held")
    cause.locator("a.wms2-button").click()
    page.wait_for_url("**/admin/requests_app/request/**")


def test_a_viewer_gets_no_operation(page_as: PageAs) -> None:
    page = page_as(Role.VIEWER)
    open_home(page)
    assert page.locator('.wms2-matter a[href*="/release/"]').count() == 0
