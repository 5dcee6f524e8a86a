"""Templates, chains and dead letters in the browser: accessible, and reached by clicks."""

from __future__ import annotations

from pathlib import Path

from django.urls import reverse
from playwright.sync_api import expect

from chains_app.services.announcing import announce
from tests.browser.conftest import PHONE, PageAs
from tests.browser.guarding import check_accessible
from tests.browser.test_pages import photograph, too_wide
from tests.integration.factories import make_template
from wms2_project.access.roles import Role

DATASET = "/Browsed/Run2031A-v1/RAW"


def test_a_template_is_started_by_hand_and_its_chain_is_drawn(page_as: PageAs, pictures: Path) -> None:
    make_template("browsed", mask="^/Browsed/")
    page = page_as(Role.OPERATOR, reduced_motion="reduce")
    page.goto(reverse("admin:chains_app_template_changelist"))
    check_accessible(page)
    photograph(page, pictures / "templates.png")
    page.get_by_role("link", name="Load a template").click()
    expect(page.locator("#new-title")).to_be_visible()
    check_accessible(page)
    photograph(page, pictures / "template-new.png")
    page.goto(reverse("admin:chains_app_template_changelist"))
    page.get_by_role("link", name="browsed v1").click()
    expect(page.locator("#template-title")).to_have_text("browsed v1")
    check_accessible(page)
    photograph(page, pictures / "template.png")
    page.get_by_role("link", name="Start a chain").click()
    page.locator("#id_input_data").fill(DATASET)
    page.locator("#id_reason").fill("by hand")
    check_accessible(page)
    photograph(page, pictures / "template-start.png")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#chain-title")).to_contain_text("browsed v1")
    expect(page.locator(".wms2-chain-box")).not_to_have_count(0)
    check_accessible(page)
    photograph(page, pictures / "chain.png")
    page.set_viewport_size(PHONE)
    assert too_wide(page) == []


def test_dead_letters_are_shown_and_dropped(page_as: PageAs, pictures: Path) -> None:
    dead = announce(uid="dead-in-browser", name="/Unmatched/Run2031A-v1/RAW", actor="user:ana")
    page = page_as(Role.OPERATOR, reduced_motion="reduce")
    page.goto(reverse("admin:chains_app_announcement_changelist"))
    row = page.get_by_role("row").filter(has_text="/Unmatched/Run2031A-v1/RAW")
    expect(row).to_contain_text("No actual template matches the name")
    check_accessible(page)
    photograph(page, pictures / "announcements.png")
    page.goto(reverse("admin:chains_app_announcement_change", args=[dead.pk]))
    check_accessible(page)
    page.get_by_role("link", name="Drop").click()
    page.get_by_label("Reason").fill("not needed")
    page.get_by_role("button", name="Drop").click()
    expect(page.locator("main, #content").first).to_contain_text("dropped")
