"""The console's pages in a browser: accessible, on a phone too, and photographed for docs/images."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect

from console.pages import PAGES
from requests_app.models import Request
from sites_app.models import Site
from sites_app.services.slot_samples import record_slots
from tests.browser.conftest import PHONE, PageAs, photograph
from tests.browser.guarding import check_accessible
from tests.integration.factories import OWN_SITE
from wms2_project.access.roles import Role

SITE = "T2_US_Purdue"
FOUR_K = {"width": 3840, "height": 2160}


def too_wide(page: Page) -> list[str]:
    """Return the elements that make the page wider than the screen."""
    found: list[str] = page.evaluate(
        """() => document.documentElement.scrollWidth <= innerWidth ? [] :
          [...document.querySelectorAll("body *")]
            .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
            .map((one) => one.outerHTML.slice(0, 160)).slice(0, 8)"""
    )
    return found


@pytest.mark.parametrize("name", [*(one.name for one in PAGES), "submit"])
def test_every_page_is_accessible_and_fits_a_phone(name: str, page_as: PageAs, pictures: Path) -> None:
    page = page_as(Role.OPERATOR)
    page.goto(reverse(f"console:{name}", args=[SITE] if name == "site" else []))
    expect(page.locator("h1").first).to_be_visible()
    check_accessible(page)
    assert too_wide(page) == []
    photograph(page, pictures / f"console-{name}.png")
    page.set_viewport_size(PHONE)
    assert too_wide(page) == []


def test_pages_use_the_width_of_a_4k_screen(page_as: PageAs) -> None:
    page = page_as(Role.OPERATOR, viewport=FOUR_K)
    request = Request.objects.filter(owner="lab:fleet", status="active").latest("created_at")
    named = [reverse(f"console:{one.name}", args=[SITE] if one.name == "site" else []) for one in PAGES]
    lists = ["requests_app_request", "dags_app_mergegroup", "outputs_app_outputblock"]
    addresses = [
        reverse("admin:index"), *named, reverse("console:submit"),
        *(reverse(f"admin:{name}_changelist") for name in lists),
        reverse("admin:requests_app_request_change", args=[request.pk]),
    ]  # fmt: skip
    for address in addresses:
        page.goto(address)
        expect(page.locator("#content")).to_be_visible()
        assert too_wide(page) == [], address
        left, right = page.evaluate(
            "(({ left, right }) => [left, right])(document.getElementById('content').getBoundingClientRect())"
        )
        assert right - left > 0.8 * FOUR_K["width"], address
        assert right > 0.95 * FOUR_K["width"], address
        size = page.evaluate("parseFloat(getComputedStyle(document.getElementById('content')).fontSize)")
        assert size >= 17, address
    page.goto(reverse("admin:requests_app_request_changelist") + "?status__exact=queued")
    reasons = page.locator("#result_list .wms2-clip")
    assert reasons.count() > 0
    assert reasons.evaluate_all("(all) => all.filter((one) => one.scrollWidth > one.clientWidth).length") == 0


def test_pages_are_accessible_in_the_dark(page_as: PageAs, pictures: Path) -> None:
    page = page_as(Role.OPERATOR, color_scheme="dark")
    for name in ("sites", "outputs", "alerts"):
        page.goto(reverse(f"console:{name}"))
        expect(page.locator("#wms2-indicator")).to_contain_text("Live")
        check_accessible(page)
    photograph(page, pictures / "console-alerts-dark.png")


def test_admins_of_a_site_reach_their_site_and_its_drain_in_two_clicks(page_as: PageAs) -> None:
    site, _ = Site.objects.update_or_create(name=OWN_SITE, defaults={"total_slots": 50, "running_slots": 20})
    record_slots([site], now=timezone.now())
    page = page_as(Role.SITE_ADMIN)
    page.goto(reverse("console:sites"))
    own = page.get_by_label("Your sites")
    expect(own).to_contain_text("20 of 50 cores")
    expect(own.get_by_role("img", name="Running cores")).to_be_visible()
    own.get_by_role("link", name=OWN_SITE).click()
    expect(page.get_by_role("img", name=f"cores at {OWN_SITE} in the last 24 hours")).to_be_visible()
    page.get_by_role("link", name="Drain").click()
    expect(page.get_by_role("heading", name=f"Drain: {OWN_SITE}")).to_be_visible()


def test_settings_show_no_secret(page_as: PageAs) -> None:
    page = page_as(Role.OPERATOR)
    page.goto(reverse("console:settings"))
    row = page.get_by_role("row").filter(has_text="SECRET_KEY").first
    expect(row).to_contain_text("hidden")
    meaning = page.get_by_role("row").filter(has_text="WMS2_AUDIT_KEY").first
    expect(meaning.locator("code").last).to_have_text("SECRET_KEY")
