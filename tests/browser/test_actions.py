"""Operations in the browser: preview, selections, stale forms, the palette by keyboard, submission."""

from __future__ import annotations

import json
from pathlib import Path

from django.urls import reverse
from playwright.sync_api import Page, expect

from requests_app.models import Request
from requests_app.states import RequestStatus
from requests_app.transitions import transition
from tests.browser.conftest import PageAs, photograph
from tests.browser.guarding import Guard, check_accessible
from tests.integration.factories import make_request
from wms2_project.access.roles import Role

S = RequestStatus
LIST = "admin:requests_app_request_changelist"


def form_of(row: Request, operation: str) -> str:
    return reverse(f"admin:requests_app_request_{operation}", args=[row.pk])


def test_the_effect_of_a_release_is_shown_and_follows_the_form(page_as: PageAs, pictures: Path) -> None:
    row = Request.objects.filter(status=S.HELD, request_name__contains="_").first()
    assert row is not None
    page = page_as(Role.OPERATOR)
    page.goto(form_of(row, "release"))
    effects = page.locator("#action-effects")
    expect(effects).to_contain_text("T1_US_FNAL")
    page.get_by_label("Sites to ban").fill("T1_US_FNAL")
    expect(effects).not_to_contain_text("T1_US_FNAL,")
    check_accessible(page)
    photograph(page, pictures / "console-action.png")


def test_a_concurrent_change_is_shown_and_keeps_the_entered_values(
    page_as: PageAs, guards: list[Guard]
) -> None:
    row = make_request(status=S.HELD)
    page = page_as(Role.OPERATOR)
    page.goto(form_of(row, "abort"))
    page.get_by_label("Reason").fill("a long explanation")
    expect(page.locator("#action-effects")).to_contain_text("held since")
    transition(request=row, to=S.QUEUED, actor="user:olga", reason="released by a colleague")
    expect(page.locator("#action-effects")).to_contain_text("queued since")
    guards[0].expect("412")
    page.get_by_role("button", name="Abort").click()
    expect(page.get_by_text("It is queued now.")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value("a long explanation")
    page.get_by_role("button", name="Abort").click()
    expect(page.get_by_text("Aborted: its jobs are being removed.")).to_be_visible()


def test_a_selection_is_stopped_with_one_result_each(page_as: PageAs) -> None:
    rows = [make_request(status=S.QUEUED), make_request(status=S.COMPLETED)]
    page = page_as(Role.OPERATOR)
    page.goto(reverse(LIST))
    for row in rows:
        page.get_by_role("row").filter(has_text=row.request_name).get_by_role("checkbox").check()
    page.locator("select[name=action]").select_option("stop_selected")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#action-effects")).to_contain_text("Possible now: Restart, Invalidate outputs.")
    page.get_by_label("Reason").fill("maintenance of the storage")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("heading", name="Stop: 1 of 2 done")).to_be_visible()


def test_an_action_is_found_and_opened_by_keyboard(page_as: PageAs, pictures: Path) -> None:
    row = make_request(status=S.HELD, request_name="zoe_palette_0001")
    page = page_as(Role.OPERATOR)
    page.goto(reverse("console:health"))
    expect(page.locator("#wms2-indicator")).to_have_text("boltLive")  # the scripts listen to keys
    page.keyboard.press("Control+k")
    combobox = page.get_by_role("combobox")
    expect(combobox).to_be_focused()
    page.keyboard.type("release zoe_pal")
    expect(page.get_by_role("option").first).to_contain_text("Release zoe_palette_0001")
    check_accessible(page)
    page.screenshot(path=pictures / "console-palette.png", animations="disabled")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.get_by_role("option").first).to_contain_text("Home")
    page.keyboard.type("zoe_palette")
    expect(page.get_by_role("option").first).to_contain_text("zoe_palette_0001")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{reverse('admin:requests_app_request_change', args=[row.pk])}")


def test_a_request_is_released_without_a_mouse(page_as: PageAs) -> None:
    row = make_request(status=S.HELD)
    page = page_as(Role.OPERATOR)
    page.goto("/admin/")
    expect(page.locator("#wms2-indicator")).to_have_text("boltLive")
    page.keyboard.press("Control+k")
    page.keyboard.type(f"release {row.request_name}")
    expect(page.get_by_role("option").first).to_contain_text(f"Release {row.request_name}")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{form_of(row, 'release')}")
    tab_to(page, "element.name === 'reason'")
    page.keyboard.type("the storage is back")
    tab_to(page, "element.tagName === 'BUTTON' && element.textContent.trim() === 'Release'")
    page.keyboard.press("Enter")
    expect(page.locator("#live-request-status .wms2-status").first).to_contain_text("queued")


def tab_to(page: Page, condition: str) -> None:
    """Press Tab until the focused element fulfils the condition; fail if none of the page does."""
    for _ in range(200):
        if page.evaluate(f"((element) => {condition})(document.activeElement)"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no element is reached where {condition}")


def test_a_priority_is_changed_in_the_queue_by_keyboard(page_as: PageAs) -> None:
    low, high = (make_request(status=S.QUEUED, priority=n, rank=float(n)) for n in (999_990, 999_991))
    page = page_as(Role.OPERATOR)
    page.goto(reverse("console:admission"))
    expect(page.locator("#wms2-indicator")).to_have_text("boltLive")
    rows = page.get_by_role("row").filter(has=page.locator("[data-priority]"))
    expect(rows.nth(1)).to_contain_text(low.request_name)
    field = page.get_by_label(f"Priority of {low.request_name}")
    field.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    form = page.get_by_role("form", name="New priority")
    expect(form).to_contain_text(f"Priority of {low.request_name}: 999990 → 999992")
    expect(form).to_contain_text("moves from position 2 to 1")
    check_accessible(page)
    page.keyboard.press("Enter")
    page.keyboard.type("its data is wanted")
    page.keyboard.press("Enter")
    expect(form).to_be_hidden()
    expect(field).to_be_focused()
    expect(rows.first).to_contain_text(low.request_name)
    expect(rows.nth(1)).to_contain_text(high.request_name)
    low.refresh_from_db()
    assert low.priority == 999_992


def test_a_document_is_checked_planned_in_two_variants_and_submitted(page_as: PageAs) -> None:
    page = page_as(Role.OPERATOR)
    page.goto(reverse("console:submit"))
    first = page.get_by_label("Document", exact=True)
    document = json.loads(first.input_value()) | {"RequestName": "made_in_the_browser"}
    first.fill(json.dumps(document | {"Memory": "lots"}, indent=2))
    expect(page.locator("#problems-A")).to_contain_text("Memory")
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    first.fill(json.dumps(document, indent=2))
    expect(page.locator("#problems-A")).to_contain_text("The document is correct")
    page.get_by_role("button", name="Compare with a variant").click()
    page.get_by_label("Document of variant B").fill(json.dumps(document | {"EventsPerJob": 50}, indent=2))
    for name, jobs in (("Variant A", "5 in 1 group"), ("Variant B", "10 in 2 groups")):
        plan_and_expect(page, name, jobs)
    page.get_by_label("Variant A").get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="made_in_the_browser").first).to_be_visible()
    assert Request.objects.get(request_name="made_in_the_browser").status == S.SUBMITTED


def plan_and_expect(page: Page, name: str, jobs: str) -> None:
    variant = page.get_by_label(name)
    variant.get_by_role("button", name="Preview the plan").click()
    expect(variant.locator("[data-result]")).to_contain_text(jobs)
