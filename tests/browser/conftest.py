"""Chromium on separate processes of the console. `page_as` opens a page of a logged-in user."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.guarding import Guard
from tests.browser.serving import Server, own_database
from tests.integration.factories import make_user
from wms2_project.access.roles import Role

# playwright runs an event loop in this thread, in which Django refuses to use the database
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
PageAs = Callable[..., Page]
NewContext = Callable[..., BrowserContext]
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
PATIENCE_MS = 120_000  # for what hangs
expect.set_options(timeout=PATIENCE_MS)
PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1440, "height": 900}
PICTURE_WIDTH, TALLEST = 1120, 780
# Without motion, so that what a test clicks, measures or photographs stands still
PROFILE = {
    "viewport": DESKTOP, "locale": "en-GB", "timezone_id": "Europe/Zurich", "reduced_motion": "reduce",
}  # fmt: skip


@contextmanager
def _database(name: str, blocker: Any) -> Iterator[None]:
    """Use the database of the server in this process."""
    before = connection.settings_dict["NAME"]
    with blocker.unblock():
        connection.close()
        connection.settings_dict["NAME"] = name
        try:
            yield
        finally:
            connection.close()
            connection.settings_dict["NAME"] = before


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Iterator[Server]:
    """Yield the console with a fleet of 60 requests in every state."""
    with own_database() as url:
        made = Server(url, tmp_path_factory.mktemp("server"))
        try:
            made.manage("migrate", "--no-input", "-v0")
            made.manage("sync_sites")
            made.manage("seed_fleet", "--requests", "60")
            made.start_web()
            made.start_streams()
            yield made
        finally:
            made.stop_all()


@pytest.fixture(autouse=True)
def _rows(server: Server, django_db_blocker: Any) -> Iterator[None]:
    """Keep the rows that tests write to the database of the server."""
    with _database(server.environment["DATABASE_URL"].rpartition("/")[2], django_db_blocker):
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = os.environ.get("WMS2_CHROMIUM") or shutil.which("chromium")
    if not program:
        hint = os.environ.get("WMS2_CHROMIUM_HINT", "run these tests with ./wms2 test --tier browser")
        pytest.fail(hint)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def guards() -> Iterator[list[Guard]]:
    """Fail the test if one of its pages violates the rules of `Guard`."""
    made: list[Guard] = []
    yield made
    assert [problem for guard in made for problem in guard.unexpected()] == []


@pytest.fixture
def new_context(browser: Browser, guards: list[Guard], server: Server) -> Iterator[NewContext]:
    """Yield a function that opens a browser profile; options are those of playwright."""
    opened: list[BrowserContext] = []

    def make(**options: Any) -> BrowserContext:
        options = {**PROFILE, **options}
        context = browser.new_context(base_url=server.url, **options)
        context.set_default_timeout(PATIENCE_MS)
        guards.append(Guard(context))
        opened.append(context)
        return context

    yield make
    for context in opened:
        context.close()


@pytest.fixture
def page_as(new_context: NewContext, server: Server) -> PageAs:
    """Return a function that opens a page of a new user in this role; options are those of playwright."""

    def make(role: Role, username: str = "", **options: Any) -> Page:
        client = Client()
        client.force_login(make_user(username, role=role, is_staff=True))
        context = new_context(**options)
        cookie = client.cookies["sessionid"]
        context.add_cookies([{"name": "sessionid", "value": cookie.value, "url": server.url}])
        return context.new_page()

    return make


def photograph(page: Page, path: Path) -> None:
    """Take a picture that is small enough to be kept."""
    height = min(int(page.evaluate("document.documentElement.scrollHeight")), TALLEST)
    page.set_viewport_size({"width": PICTURE_WIDTH, "height": height})
    page.screenshot(path=path, animations="disabled")
    page.set_viewport_size(DESKTOP)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Return the directory of screenshots: WMS2_PICTURES if set, for docs/images."""
    return Path(os.environ.get("WMS2_PICTURES") or tmp_path)
