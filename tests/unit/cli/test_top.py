"""`wms2 top`: rows of the API are text, keys act on the chosen request, errors do not end it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static
from wms2_cli.api import Answer
from wms2_cli.errors import CliError
from wms2_cli.top import Explanation, Reason, Top

HOSTILE = "[/red] [bold]not markup"
WHY = {
    "summary": HOSTILE,
    "gates": [{"name": "sites", "detail": "none", "verdict": "block", "remedy": "add"}],
}


def row(name: str, status: str) -> dict[str, Any]:
    progress = {"fraction": 0.5, "groups_done": 1, "groups_total": 2}
    return {
        "request_name": name, "status": status, "status_since": "2026-01-01T00:00:00Z", "priority": 1,
        "progress": progress, "wait_reason": HOSTILE, "last_error": "",
    }  # fmt: skip


class FakeApi:
    """The API with two requests; `sent` has the posted bodies."""

    def __init__(self) -> None:
        self.rows = [row("waits", "queued"), row("stuck", "held")]
        self.sent: list[tuple[str, Any]] = []
        self.problem: CliError | None = None

    def connect(self, **options: float) -> FakeApi:
        return self

    def pages(self, path: str, **query: Any) -> list[dict[str, Any]]:
        if self.problem:
            raise self.problem
        return self.rows

    def get(self, path: str) -> dict[str, Any]:
        return WHY

    def call(self, method: str, path: str, body: Any) -> Answer:
        self.sent.append((path, body))
        if self.problem:
            raise self.problem
        return Answer({"status": "queued"}, "Released: it waits.")


def drive(api: FakeApi, act: Callable[[Top, Pilot[None]], Awaitable[None]]) -> None:
    """Run the screen without a terminal until `act` has ended."""

    async def run() -> None:
        top = Top(api, 3600)  # type: ignore[arg-type]
        async with top.run_test(size=(80, 24)) as pilot:
            await settle(top, pilot)
            await act(top, pilot)

    asyncio.run(run())


async def settle(top: Top, pilot: Pilot[None]) -> None:
    """Wait until all calls to the API have ended and are shown."""
    await pilot.pause()
    await top.workers.wait_for_complete()
    await pilot.pause()


async def asked(top: Top, pilot: Pilot[None]) -> None:
    """Wait until the dialog for the reason is open."""
    while not isinstance(top.screen, Reason) or not isinstance(top.focused, Input):
        await pilot.pause()


def test_held_requests_come_first_and_keep_the_cursor() -> None:
    async def act(top: Top, pilot: Pilot[None]) -> None:
        table = top.query_one(DataTable)
        assert [str(table.get_row_at(index)[0]) for index in (0, 1)] == ["stuck", "waits"]
        assert HOSTILE in map(str, table.get_row_at(0))
        await pilot.press("down")
        api.rows.insert(0, row("also", "held"))
        await pilot.press("r")
        await settle(top, pilot)
        assert str(table.get_row_at(table.cursor_row)[0]) == "waits"
        assert top.sub_title == "3 open requests"

    api = FakeApi()
    drive(api, act)


@pytest.mark.parametrize("key", ["w", "enter"])
def test_why_is_shown_over_the_table(key: str) -> None:
    async def act(top: Top, pilot: Pilot[None]) -> None:
        await pilot.press(key)
        await settle(top, pilot)
        assert isinstance(top.screen, Explanation)
        shown = str(top.screen.query_one(Static).render())
        assert "stuck" in shown
        assert HOSTILE in shown
        assert "remedy: add" in shown
        await pilot.press("escape")
        assert not isinstance(top.screen, Explanation)

    drive(FakeApi(), act)


def test_an_operation_needs_a_reason_and_its_refusal_is_shown() -> None:
    async def act(top: Top, pilot: Pilot[None]) -> None:
        api.problem = CliError(HOSTILE)
        await pilot.press("l")
        await asked(top, pilot)
        await pilot.press("enter")
        assert isinstance(top.screen, Reason)
        await pilot.press("escape")
        await pilot.press("s")
        await asked(top, pilot)
        await pilot.press("b", "a", "d", "enter")
        await settle(top, pilot)
        assert api.sent == [("requests/stuck/stop", {"reason": "bad"})]
        assert [one.message for one in top._notifications] == [HOSTILE]

    api = FakeApi()
    drive(api, act)


def test_an_outage_is_shown_and_the_rows_stay() -> None:
    async def act(top: Top, pilot: Pilot[None]) -> None:
        api.problem = CliError("https://wms2 does not answer: refused", cure="Check the URL")
        await pilot.press("r")
        await settle(top, pilot)
        assert top.sub_title == "https://wms2 does not answer: refused"
        assert top.query_one(DataTable).row_count == 2

    api = FakeApi()
    drive(api, act)
