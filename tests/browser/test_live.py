"""Pages stay current without a reload, cost nothing in the background, and recover by themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from playwright.sync_api import Page, Route, expect

from dags_app.models import Schedd
from dags_app.services.schedds import note_answer, note_silence
from requests_app.models import Request
from requests_app.services.alerts import raise_alert
from requests_app.states import RequestStatus
from requests_app.transitions import transition
from tests.browser.conftest import NewContext, PageAs
from tests.browser.guarding import Guard, check_accessible
from tests.browser.serving import Server
from tests.integration.factories import make_dag, make_request, make_round, make_user
from tests.waiting import until
from wms2_project.access.roles import Role

PASSWORD = "a long enough password"
INDICATOR = "#wms2-indicator"


def open_home(page: Page) -> None:
    page.goto("/admin/")
    expect(page.locator(INDICATOR)).to_have_text("boltLive")


def hold(reason: str, **values: Any) -> str:
    row = make_request(status=RequestStatus.ACTIVE, **values)
    transition(
        request=row, to=RequestStatus.HELD, reason=reason, actor="system:lifecycle",
        changes={"last_error": reason},
    )  # fmt: skip
    return str(row.request_name)


def expect_held(page: Page) -> None:
    """Expect the page to show as many held requests as there are."""
    count = Request.objects.filter(status=RequestStatus.HELD).count()
    expect(page.locator(".wms2-headline")).to_contain_text(f"{count} held")


def test_a_person_logs_in_and_sees_the_home_page(new_context: NewContext) -> None:
    user = make_user("lena", role=Role.OPERATOR)
    user.set_password(PASSWORD)
    user.save()
    page = new_context().new_page()
    page.goto("/")
    expect(page.get_by_label("Username")).to_be_visible()
    check_accessible(page)
    page.get_by_label("Username").fill("lena")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_title("Home | WMS2")
    expect(page.locator(INDICATOR)).to_have_text("boltLive")


def test_a_change_appears_without_a_reload(page_as: PageAs) -> None:
    page = page_as(Role.OPERATOR)
    open_home(page)
    page.evaluate("window.kept = true")
    hold("no site has the input")
    expect_held(page)
    assert page.evaluate("window.kept") is True


def pages_open(server: Server) -> int:
    with urlopen(f"http://{server.streams}/streams/livez", timeout=60) as answer:
        return int(json.load(answer)["pages"])


def test_a_hidden_tab_closes_its_stream_and_catches_up(page_as: PageAs, server: Server) -> None:
    page = page_as(Role.OPERATOR)
    until(lambda: pages_open(server) == 0)
    open_home(page)
    until(lambda: pages_open(server) == 1)
    hide(page, hidden=True)
    until(lambda: pages_open(server) == 0)
    hold("not seen yet")
    hide(page, hidden=False)
    expect_held(page)
    until(lambda: pages_open(server) == 1)


@pytest.fixture
def schedd() -> Iterator[str]:
    """Yield a schedd that answers; delete it afterwards, because the home page shows silent ones first."""
    name = "mute@pool"
    note_answer(name, now=timezone.now())
    yield name
    Schedd.objects.filter(name=name).delete()


def test_a_silent_schedd_is_shown_until_it_answers(page_as: PageAs, schedd: str) -> None:
    row = make_request(status=RequestStatus.ACTIVE)
    make_dag(make_round(row.workflow), schedd_name=schedd)
    home = page_as(Role.OPERATOR)
    open_home(home)
    page = home.context.new_page()
    page.goto(f"/admin/requests_app/request/{row.pk}/change/")
    sign, status = home.locator(".wms2-sign", has_text=schedd), page.locator("#live-request-status")
    expect(sign).to_contain_text("answers")
    note_silence(schedd, now=timezone.now())
    expect(sign).to_contain_text("does not answer")
    expect(status).to_contain_text(f"{schedd} does not answer")
    note_answer(schedd, now=timezone.now())
    expect(sign).to_contain_text("answers")
    expect(status).not_to_contain_text(f"{schedd} does not answer")


def hide(page: Page, *, hidden: bool) -> None:
    """Set the page's tab to hidden, which a headless browser does not do."""
    page.evaluate(
        """hidden => {
          Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_a_page_says_that_wms2_is_down_and_recovers(
    page_as: PageAs, guards: list[Guard], server: Server
) -> None:
    page = page_as(Role.OPERATOR)
    open_home(page)
    guards[0].expect("Failed to load resource")
    server.stop("streams")
    server.stop("web")
    try:
        expect(page.locator(INDICATOR)).to_contain_text("WMS2 does not answer")
        server.start_web()
        hold("held while the streams were away")
        expect_held(page)
        expect(page.locator(INDICATOR)).to_contain_text("Updated every 5 s")
    finally:
        server.start_streams()
    expect(page.locator(INDICATOR)).to_have_text("boltLive")


def test_a_slow_answer_is_announced_and_what_is_typed_stays(page_as: PageAs) -> None:
    row = make_request(status=RequestStatus.HELD)
    page = page_as(Role.OPERATOR)
    page.goto(f"/admin/requests_app/request/{row.pk}/release/")
    expect(page.locator(INDICATOR)).to_have_text("boltLive")
    kept: list[Route] = []
    page.route(page.url, lambda route: kept.append(route))
    page.get_by_label("Reason").fill("a long explanation")
    expect(page.locator(INDICATOR)).to_contain_text("WMS2 answers slowly")
    for route in kept:
        route.continue_()
    expect(page.locator(INDICATOR)).to_have_text("boltLive")
    expect(page.get_by_label("Reason")).to_have_value("a long explanation")


def test_an_ended_session_ends_the_stream(page_as: PageAs, guards: list[Guard]) -> None:
    page = page_as(Role.VIEWER)
    open_home(page)
    guards[0].expect("403|Failed to load resource")
    Session.objects.all().delete()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # connects again
    expect(page.locator(INDICATOR)).to_contain_text("The session has ended")
    expect(page.locator(INDICATOR).get_by_role("link", name="Log in")).to_be_visible()


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "{{ 7*7 }}${7*7}<%= 7*7 %>",
    "javascript:alert(1)",
    "\u202egnp.exe",
]


def test_hostile_texts_stay_texts(page_as: PageAs) -> None:
    page = page_as(Role.OPERATOR)
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    open_home(page)
    for text in HOSTILE:
        hold(text, campaign=text)
        raise_alert(request=make_request(), kind="slow_dag", message=text)
    expect_held(page)
    page.goto("/admin/requests_app/request/?status__exact=held")
    for text in HOSTILE:
        expect(page.get_by_text(text).first).to_be_visible()
    assert page.locator("#content img[src=x], #content svg[onload]").count() == 0
