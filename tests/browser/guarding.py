"""Checks of all pages: no request to another machine, no error, no violated content security policy."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request

LOCAL = {"127.0.0.1", "localhost"}
# Criteria of WCAG 2.2 A and AA
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}


class Guard:
    """Collects requests and errors of the pages of a context.

    A test declares errors that it causes by `expect`.
    """

    def __init__(self, context: BrowserContext) -> None:
        self.problems: list[str] = []
        self._expected: list[str] = []
        context.on("request", self._on_request)
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self.problems.append(f"uncaught: {error.error}"))

    def expect(self, pattern: str) -> None:
        """Allow errors that match, for instance those of a server that the test stops."""
        self._expected.append(pattern)

    def unexpected(self) -> list[str]:
        return [one for one in self.problems if not any(re.search(each, one) for each in self._expected)]

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.hostname not in LOCAL:
            self.problems.append(f"request to {request.url}")

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.problems.append(f"console: {message.text} ({message.location.get('url', '')})")


def check_accessible(page: Page) -> None:
    """Fail with the violations that axe finds on the page."""
    found = Axe().run(page, options=RULES).response["violations"]
    shown = [
        f"{one['id']}: {one['help']}\n" + "\n".join(f"    {node['html'][:300]}" for node in one["nodes"][:5])
        for one in found
    ]
    assert not shown, "\n".join(shown)
