"""The hub: each page gets the events of its topics, and each fragment is rendered once for all pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from console.fragments import Fragment, Rendered
from console.streams import hub as hub_module
from console.streams.hub import MAX_PAGES_OF_USER, MAX_QUEUED, Hub, Page, Ref, build_version, event
from console.streams.sessions import Viewer
from wms2_project.access.roles import Role

OLGA = Viewer("s1", "olga", Role.OPERATOR)
VERA = Viewer("s2", "vera", Role.VIEWER)
HOME = Fragment(
    name="home", template="", read=lambda of, role: {}, topics=lambda of: frozenset({"fleet", of})
)


class Rendering:
    """Counts renderings; each has a new version unless it is frozen."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Role]] = []
        self.frozen = False

    def __call__(self, fragment: Fragment, of: str, role: Role) -> Rendered:
        self.done.append((of, role))
        version = 1 if self.frozen else len(self.done)
        return Rendered(f"<p>{version}</p>", f'"{version}"')


def page(viewer: Viewer = OLGA, *topics: str, fragments: tuple[str, ...] = ()) -> Page:
    return Page(viewer, frozenset(topics), {Ref("home", of, viewer.role): '"0"' for of in fragments})


def sent(one: Page) -> list[tuple[str, Any]]:
    """Return the queued events as name and data; None at the end of the stream."""
    found: list[tuple[str, Any]] = []
    while not one.events.empty():
        text = one.events.get_nowait()
        if text is None:
            found.append(("end", None))
            continue
        name, data = text.decode().removesuffix("\n\n").split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def names(one: Page) -> list[str]:
    return [name for name, _data in sent(one)]


def running(scenario: Callable[[Hub, Rendering], Awaitable[None]]) -> None:
    """Run the scenario with a hub whose loops are running."""

    async def main() -> None:
        rendering = Rendering()
        hub = Hub({"home": HOME}, rendering)
        loops = [asyncio.create_task(hub.spread()), asyncio.create_task(hub.draw())]
        try:
            await asyncio.wait_for(scenario(hub, rendering), timeout=60)
        finally:
            for loop in loops:
                loop.cancel()

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "COLLECT_SEC", 0.01)


def test_a_change_reaches_the_pages_of_its_topic_only() -> None:
    async def scenario(hub: Hub, _rendering: Rendering) -> None:
        fleet, sites = page(OLGA, "fleet", "alerts"), page(VERA, "sites")
        for one in (fleet, sites):
            hub.open(one)
            sent(one)
        hub.change(["fleet", "audit"])
        await until(lambda: not fleet.events.empty())
        assert sent(fleet) == [("change", ["fleet"])]
        assert sent(sites) == []

    running(scenario)


def test_without_announcements_every_shown_fragment_is_rendered_again() -> None:
    async def scenario(hub: Hub, _rendering: Rendering) -> None:
        one = page(OLGA, "sites", fragments=("a",))
        hub.open(one)
        await until(lambda: "fragment" in names(one))
        hub.change_all()
        found: list[tuple[str, Any]] = []
        while {name for name, _data in found} != {"change", "fragment"}:
            found += sent(one)
            await asyncio.sleep(0.01)
        assert ("change", ["sites"]) in found

    running(scenario)


def test_many_changes_become_one_event() -> None:
    async def scenario(hub: Hub, _rendering: Rendering) -> None:
        one = page(OLGA, "fleet", "request:a", "request:b")
        hub.open(one)
        sent(one)
        for _ in range(50):
            hub.change(["fleet", "request:a"])
        hub.change(["request:b"])
        await until(lambda: not one.events.empty())
        assert sent(one) == [("change", ["fleet", "request:a", "request:b"])]

    running(scenario)


def test_a_fragment_is_rendered_once_per_role_for_all_pages() -> None:
    async def scenario(hub: Hub, rendering: Rendering) -> None:
        pages = [page(viewer, "fleet", fragments=("",)) for viewer in [OLGA] * 20 + [VERA] * 20]
        for one in pages:
            hub.open(one)
        await until(lambda: len(rendering.done) == 2)
        hub.change(["fleet"])
        await until(lambda: all(one.events.qsize() == 4 for one in pages))
        assert sorted(role for _of, role in rendering.done[2:]) == [Role.VIEWER, Role.OPERATOR]
        assert names(pages[0]) == ["hello", "fragment", "change", "fragment"]

    running(scenario)


def test_an_unchanged_fragment_is_not_sent_again() -> None:
    async def scenario(hub: Hub, rendering: Rendering) -> None:
        rendering.frozen = True
        one = page(OLGA, "fleet", fragments=("",))
        hub.open(one)
        await until(lambda: one.events.qsize() == 2)
        hub.change(["fleet"])
        await until(lambda: len(rendering.done) == 2)
        assert names(one) == ["hello", "fragment", "change"]

    running(scenario)


def test_a_page_that_opens_later_gets_the_present_version() -> None:
    async def scenario(hub: Hub, rendering: Rendering) -> None:
        hub.open(page(OLGA, fragments=("",)))
        await until(lambda: bool(hub.rendered))
        late = page(OLGA, fragments=("",))
        hub.open(late)
        assert [data["etag"] for name, data in sent(late) if name == "fragment"] == ['"1"']
        assert len(rendering.done) == 1

    running(scenario)


def test_a_fragment_that_no_page_shows_is_removed() -> None:
    async def scenario(hub: Hub, rendering: Rendering) -> None:
        one = page(OLGA, "fleet", fragments=("",))
        hub.open(one)
        await until(lambda: bool(hub.rendered))
        hub.close(one)
        assert hub.rendered == {}
        hub.change(["fleet"])
        other = page(VERA, "fleet")
        hub.open(other)
        await until(lambda: other.events.qsize() == 2)
        assert len(rendering.done) == 1

    running(scenario)


def test_a_page_that_does_not_keep_up_reads_everything_again() -> None:
    one = page(OLGA, "fleet")
    for number in range(MAX_QUEUED + 1):
        one.send(event("change", [str(number)]))
    assert sent(one) == [("resync", None)]


def test_the_end_of_a_stream_is_never_lost() -> None:
    one = page(OLGA)
    for _ in range(MAX_QUEUED):
        one.send(event("beat"))
    one.send(None)
    assert names(one) == ["resync", "end"]


@pytest.mark.parametrize(
    "present",
    [{}, {"s1": Viewer("s1", "olga", Role.VIEWER)}],
    ids=["the session ended", "the role changed"],
)
def test_a_session_that_is_no_longer_valid_ends_its_streams(present: dict[str, Viewer]) -> None:
    async def scenario(hub: Hub, _rendering: Rendering) -> None:
        ended, kept = page(OLGA), page(VERA)
        hub.open(ended)
        hub.open(kept)
        hub.keep(present | {"s2": VERA})
        assert names(ended) == ["hello", "bye", "end"]
        assert names(kept) == ["hello"]

    running(scenario)


def test_a_person_has_a_limited_number_of_pages() -> None:
    async def scenario(hub: Hub, _rendering: Rendering) -> None:
        for _ in range(MAX_PAGES_OF_USER):
            assert not hub.refuse(OLGA)
            hub.open(page(OLGA))
        assert hub.refuse(OLGA)
        assert not hub.refuse(VERA)

    running(scenario)


def test_pages_are_notified_once_that_the_web_process_does_not_answer() -> None:
    async def scenario(hub: Hub, _rendering: Rendering) -> None:
        one = page(OLGA)
        hub.open(one)
        for answers in (True, False, False, True):
            hub.tell_web(answers)
        assert sent(one) == [("hello", {"web": True}), ("web", False), ("web", True)]

    running(scenario)


def test_a_page_gets_only_the_changed_lines_after_the_first_version() -> None:
    async def scenario(hub: Hub, _rendering: Rendering) -> None:
        rows = [f"<li>{number}</li>" for number in range(50)]
        hub.render = lambda fragment, of, role: Rendered("\n".join(rows), f'"{hash(tuple(rows))}"')
        one, late = page(OLGA, fragments=("",)), page(OLGA, fragments=("",))
        hub.open(one)
        await until(lambda: one.events.qsize() == 2)
        ((_name, first),) = sent(one)[1:]
        rows[7:9] = ["<li>new</li>"]
        hub.change(["fleet"])
        await until(lambda: not one.events.empty())
        ((name, patch),) = sent(one)
        assert (name, patch["base"], patch["edits"]) == ("patch", first["etag"], [[7, 9, ["<li>new</li>"]]])
        hub.open(late)
        assert names(late) == ["hello", "fragment"]

    running(scenario)


def test_a_page_that_lost_its_queue_gets_the_next_version_as_a_whole() -> None:
    one = page(OLGA, fragments=("",))
    (ref,) = one.known
    versions = [build_version(ref, Rendered("a\n" * 200, '"1"'), None)]
    versions.append(build_version(ref, Rendered("a\n" * 200 + "b", '"2"'), versions[0]))
    one.deliver(ref, versions[0])
    for _ in range(MAX_QUEUED):
        one.send(event("beat"))
    one.deliver(ref, versions[1])
    assert names(one) == ["resync", "fragment"]
