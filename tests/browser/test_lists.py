"""Lists follow changes without a reload, are accessible, and fit a phone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.db.models import Model
from django.urls import reverse
from playwright.sync_api import Page, expect

from dags_app.models import DAG, MergeGroup
from outputs_app.models import OutputBlock
from requests_app.models import Alert
from requests_app.states import RequestStatus
from requests_app.transitions import transition
from sites_app.models import Site
from tests.browser.conftest import PHONE, PageAs, photograph
from tests.browser.guarding import check_accessible
from tests.integration.factories import make_request
from wms2_project.access.roles import Role
from wms2_project.console import address_of

S = RequestStatus
LIST = "admin:requests_app_request_changelist"
LISTS = [
    LIST, "admin:requests_app_alert_changelist", "admin:sites_app_site_changelist",
    "admin:sites_app_siteban_changelist", "admin:dags_app_dag_changelist",
    "admin:dags_app_mergegroup_changelist", "admin:outputs_app_outputblock_changelist",
    "admin:outputs_app_ruciorule_changelist",
]  # fmt: skip


def open_list(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("#wms2-indicator")).to_have_text("boltLive")


def test_rows_change_in_place_and_ticked_ones_stay_ticked(page_as: PageAs) -> None:
    changed, ticked = make_request(status=S.QUEUED), make_request(status=S.QUEUED)
    page = page_as(Role.OPERATOR)
    open_list(page, reverse(LIST))
    page.evaluate("window.kept = true")
    row = page.get_by_role("row").filter(has_text=changed.request_name)
    box = page.get_by_role("row").filter(has_text=ticked.request_name).get_by_role("checkbox")
    box.check()
    expect(row).to_contain_text("queued")
    transition(request=changed, to=S.ABORTED, reason="no longer needed", actor="user:olga")
    expect(row).to_contain_text("aborted")
    new = make_request(status=S.QUEUED)
    transition(request=new, to=S.ABORTED, reason="no longer needed", actor="user:olga")
    expect(page.get_by_role("row").filter(has_text=new.request_name)).to_contain_text("aborted")
    expect(box).to_be_checked()
    assert page.evaluate("window.kept") is True


def test_rows_that_keep_their_place_are_not_moved(page_as: PageAs) -> None:
    row = make_request(status=S.QUEUED)
    page = page_as(Role.OPERATOR)
    page.add_init_script("""
        addEventListener("DOMContentLoaded", () => {
            window.moved = 0;
            const elements = (one) => [...one.removedNodes].filter((node) => node instanceof Element).length;
            const count = (changes) => changes.forEach((one) => (window.moved += elements(one)));
            new MutationObserver(count).observe(document.getElementById("result_list"), { childList: true });
        });
    """)
    open_list(page, reverse(LIST))
    transition(request=row, to=S.ABORTED, reason="no longer needed", actor="user:olga")
    expect(page.get_by_role("row").filter(has_text=row.request_name)).to_contain_text("aborted")
    assert page.evaluate("window.moved") == 0


def test_a_filtered_list_removes_rows_and_counts_them(page_as: PageAs) -> None:
    row = make_request(status=S.STOPPING)
    page = page_as(Role.VIEWER)
    open_list(page, reverse(LIST))
    expect(page).to_have_title(re.compile("^ *Requests"))
    page.get_by_role("navigation", name="Requests by status").get_by_role("link", name="stopping").click()
    chip = page.locator(".wms2-chips [aria-current]")
    expect(chip).to_contain_text("stopping")
    before = int(chip.locator("b").inner_text())
    expect(page.get_by_role("link", name=row.request_name)).to_be_visible()
    expect(page.locator("#wms2-indicator")).to_have_text("boltLive")
    transition(request=row, to=S.ABORTED, reason="no longer needed", actor="user:olga")
    expect(page.get_by_role("link", name=row.request_name)).to_have_count(0)
    expect(chip).to_contain_text(str(before - 1))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lists_are_accessible(page_as: PageAs, pictures: Path, scheme: str) -> None:
    page = page_as(Role.OPERATOR, color_scheme=scheme)
    for name in LISTS if scheme == "light" else [LIST]:
        open_list(page, reverse(name))
        check_accessible(page)
    open_list(page, reverse(LIST))
    photograph(page, pictures / f"console-requests-{scheme}.png")


@pytest.mark.parametrize("model", [Site, DAG, MergeGroup, OutputBlock, Alert])
def test_the_page_of_a_row_is_accessible(page_as: PageAs, model: type[Model]) -> None:
    row = model._default_manager.first()
    assert row is not None
    page = page_as(Role.OPERATOR)
    page.goto(address_of(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", row.pk))
    expect(page.locator("h1").first).to_be_visible()
    check_accessible(page)


def test_lists_fit_a_phone(page_as: PageAs) -> None:
    page = page_as(Role.OPERATOR, viewport=PHONE)
    for name in LISTS:
        open_list(page, reverse(name))
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
