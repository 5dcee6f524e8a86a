"""Fan-out in memory: which pages are open, what each wants, and what is sent to it.

Changes are collected for a moment, then each page that subscribed to one of their topics gets one event. A
fragment is rendered once per role, in a thread, and sent to all pages that show it: as a whole at first, then
only the lines that changed. A page that does not keep up loses its queue and reads everything again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from console.fragments import Fragment, Rendered
from console.streams.database import in_thread
from console.streams.patches import build_edits
from console.streams.sessions import Viewer
from wms2_project.access.roles import Role

logger = logging.getLogger(__name__)
COLLECT_SEC = 0.2
DRAW_SEC = 0.05
RENDER_PAUSE = 4.0  # times the CPU time of a rendering: a fragment takes at most a fifth of a core
MAX_QUEUED = 64
MAX_PAGES = 1000
MAX_PAGES_OF_USER = 30


class Ref(NamedTuple):
    """A fragment as one role sees it."""

    name: str
    of: str
    role: Role


Render = Callable[[Fragment, str, Role], Rendered]


@dataclass(eq=False, slots=True)
class Page:
    """An open page. `None` in its queue ends the stream."""

    viewer: Viewer
    topics: frozenset[str]
    known: dict[Ref, str]  # fragments it shows, with the ETags of what it has or was sent
    sent: set[Ref] = field(default_factory=set)  # fragments it was sent as a whole
    events: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(MAX_QUEUED))

    def send(self, event: bytes | None) -> None:
        """Queue an event. If the queue is full, make the page read everything again."""
        try:
            self.events.put_nowait(event)
        except asyncio.QueueFull:
            while not self.events.empty():
                self.events.get_nowait()
            self.known = dict.fromkeys(self.known, "")
            self.sent.clear()
            self.events.put_nowait(RESYNC)
            if event is None:
                self.events.put_nowait(None)

    def deliver(self, ref: Ref, version: Version) -> None:
        """Send a fragment: nothing if the page has this version, the changed lines if it has the last one."""
        has = self.known[ref]
        if has == version.etag:
            return
        patched = bool(version.patch) and ref in self.sent and has == version.base
        self.known[ref] = version.etag
        self.sent.add(ref)
        self.send(version.patch if patched else version.whole)


def event(name: str, data: Any = None) -> bytes:
    """Return a server-sent event. JSON has no line breaks, so that data is one line."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


RESYNC = event("resync")
BEAT = event("beat")


@dataclass(frozen=True, slots=True)
class Version:
    """A rendered fragment as the events that bring it to a page, encoded once for all pages."""

    html: str
    etag: str
    whole: bytes
    base: str = ""  # ETag of the version that `patch` changes
    patch: bytes = b""


def build_version(ref: Ref, made: Rendered, before: Version | None) -> Version:
    """Encode the fragment as a whole and, if that is much smaller, as a change of the version before."""
    key = f"{ref.name}/{ref.of}"
    whole = event("fragment", {"fragment": key, "etag": made.etag, "html": made.html})
    if before is None or before.etag == made.etag:
        return Version(made.html, made.etag, whole)
    edits = build_edits(before.html, made.html)
    patch = event("patch", {"fragment": key, "base": before.etag, "etag": made.etag, "edits": edits})
    worth = 2 * len(patch) < len(whole)
    return Version(made.html, made.etag, whole, before.etag, patch if worth else b"")


class Hub:
    """All open pages of this process."""

    def __init__(self, fragments: Mapping[str, Fragment], render: Render) -> None:
        self.fragments, self.render = fragments, render
        self.pages: set[Page] = set()
        self.rendered: dict[Ref, Version] = {}
        self.web_answers = True
        self._changed: set[str] = set()
        self._wanted: set[Ref] = set()
        self._stale = asyncio.Event()
        self._resting: dict[Ref, float] = {}
        self._news = asyncio.Event()

    def refuse(self, viewer: Viewer) -> bool:
        """Return whether the person, or all people together, have too many pages open."""
        own = sum(page.viewer.username == viewer.username for page in self.pages)
        return len(self.pages) >= MAX_PAGES or own >= MAX_PAGES_OF_USER

    def open(self, page: Page) -> None:
        """Add a page and send it the fragments it does not have in their present version."""
        self.pages.add(page)
        page.send(event("hello", {"web": self.web_answers}))
        for ref in page.known:
            present = self.rendered.get(ref)
            if present is None:
                self._want({ref})
            elif ref not in self._wanted:
                page.deliver(ref, present)

    def close(self, page: Page) -> None:
        """Remove a page, and the fragments that no page shows any more."""
        self.pages.discard(page)
        shown = {ref for one in self.pages for ref in one.known}
        for ref in page.known.keys() - shown:
            self.rendered.pop(ref, None)

    def change(self, topics: Iterable[str]) -> None:
        """Note changes. They are sent within a moment, together with others."""
        self._changed.update(topics)
        self._news.set()

    def change_all(self) -> None:
        """Mark every fragment as changed. Unchanged content is not sent."""
        self.change({topic for page in self.pages for topic in page.topics})
        self._want({ref for page in self.pages for ref in page.known})

    def resync(self) -> None:
        """Make every page read everything again, because changes may have been lost."""
        self.broadcast(RESYNC)
        self._want({ref for page in self.pages for ref in page.known})

    def broadcast(self, sent: bytes) -> None:
        for page in self.pages:
            page.send(sent)

    def tell_web(self, answers: bool) -> None:
        """Send the pages the state of the web process if it has changed."""
        if answers != self.web_answers:
            self.web_answers = answers
            self.broadcast(event("web", answers))

    def keep(self, viewers: Mapping[str, Viewer]) -> None:
        """End the streams of sessions that have ended or whose role has changed."""
        for page in self.pages:
            if viewers.get(page.viewer.session) != page.viewer:
                page.send(event("bye"))
                page.send(None)

    async def spread(self) -> None:
        """Send changes to the pages until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            self._spread()
            await asyncio.sleep(COLLECT_SEC)

    async def draw(self) -> None:
        """Render the fragments that changed, until cancelled."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            await self._render_wanted()
            await asyncio.sleep(DRAW_SEC)

    def _spread(self) -> None:
        changed, self._changed = frozenset(self._changed), set()
        if not changed:
            return
        encoded: dict[frozenset[str], bytes] = {}
        for page in self.pages:
            mine = page.topics & changed
            if mine:
                page.send(encoded.setdefault(mine, event("change", sorted(mine))))
        shown = {ref for page in self.pages for ref in page.known}
        self._want({ref for ref in shown if self.fragments[ref.name].topics(ref.of) & changed})

    def _want(self, refs: set[Ref]) -> None:
        self._wanted |= refs
        if refs:
            self._stale.set()

    async def _render_wanted(self) -> None:
        now = time.monotonic()
        for ref in sorted(self._wanted):
            if self._resting.get(ref, 0.0) > now:
                continue  # stays wanted
            self._wanted.discard(ref)
            await self._render(ref)
        self._resting = {ref: until for ref, until in self._resting.items() if until > now}
        if self._wanted:
            self._stale.set()

    async def _render(self, ref: Ref) -> None:
        try:
            version, cost_sec = await in_thread(self._timed, ref, self.rendered.get(ref))
        except Exception:
            logger.exception("fragment %s of %r is not rendered", ref.name, ref.of)
            return
        self._resting[ref] = time.monotonic() + RENDER_PAUSE * cost_sec
        viewing = [page for page in self.pages if ref in page.known]
        if viewing:
            self.rendered[ref] = version
        for page in viewing:
            page.deliver(ref, version)

    def _timed(self, ref: Ref, before: Version | None) -> tuple[Version, float]:
        """Render the fragment; return it with the CPU time it took."""
        began = time.thread_time()
        made = self.render(self.fragments[ref.name], ref.of, ref.role)
        return build_version(ref, made, before), time.thread_time() - began
