"""The ASGI application: /streams/events for pages, /streams/livez for probes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.db import DatabaseError
from django.http.request import split_domain_port, validate_host

from console import pages  # noqa: F401 - fills the table of fragments
from console.fragments import FRAGMENTS, render
from console.streams.database import in_thread
from console.streams.hub import Hub, Page, Ref
from console.streams.sessions import Viewer, session_of, viewers_of
from console.streams.source import Source

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
MAX_TOPICS = 50
MAX_TEXT = 500


class Refused(Exception):
    """The request cannot be served; with status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Application:
    """One process with its hub and its source."""

    def __init__(self) -> None:
        self.hub = Hub(FRAGMENTS, render)
        self.source = Source(self.hub)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            try:
                await self._answer(scope, receive, send)
            except Refused as refused:
                await _reply(send, refused.status, {"title": str(refused)})

    async def _live(self, receive: Receive, send: Send) -> None:
        """Run the hub and its sources from start to shutdown."""
        hub, source = self.hub, self.source
        parts = (
            hub.spread, hub.draw, source.listen, source.beat, source.compare_marks, source.check_sessions,
            source.watch_web,
        )  # fmt: skip
        await receive()
        self._tasks = {asyncio.create_task(part()) for part in parts}
        for task in self._tasks:
            task.add_done_callback(_fail)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for task in self._tasks:
            task.remove_done_callback(_fail)
            task.cancel()
        for page in self.hub.pages:
            page.send(None)
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["path"] == "/streams/livez":
            state = {"pages": len(self.hub.pages), "redis": self.source.redis_answers}
            return await _reply(send, 200, state)
        if scope["path"] != "/streams/events" or scope["method"] != "GET":
            raise Refused(404, "No such address")
        allowed = allow_origin(headers.get("host", ""), headers.get("origin", ""))
        try:
            page = await self._page(headers.get("cookie", ""), scope["query_string"].decode("latin-1"))
        except Refused as refused:
            return await _reply(send, refused.status, {"title": str(refused)}, allowed)
        await self._stream(page, receive, send, {**_STREAM, **allowed})

    async def _page(self, cookies: str, query: str) -> Page:
        viewer = await _viewer(cookies)
        if self.hub.refuse(viewer):
            raise Refused(429, "Too many pages are open")
        return read_query(query, viewer)

    async def _stream(self, page: Page, receive: Receive, send: Send, headers: dict[str, str]) -> None:
        """Send the page its events until it is closed on either side."""
        await send({"type": "http.response.start", "status": 200, "headers": _encode(headers)})
        gone = asyncio.create_task(_until_gone(receive))
        gone.add_done_callback(lambda _task: page.send(None))
        self.hub.open(page)
        try:
            while (sent := await page.events.get()) is not None:
                await send({"type": "http.response.body", "body": sent, "more_body": True})
            if not gone.done():
                await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            self.hub.close(page)


def read_query(query: str, viewer: Viewer) -> Page:
    """Return the page that subscribes: topics, and fragments with the ETags it has.

    Raise Refused for an unknown fragment, one of a higher role, or too many of them.
    """
    values = parse_qs(query, keep_blank_values=True)
    topics, names = values.get("topic", []), values.get("fragment", [])
    etags = values.get("etag", [""] * len(names))
    if len(topics) > MAX_TOPICS or len(names) > MAX_TOPICS or len(etags) != len(names):
        raise Refused(400, f"A page has at most {MAX_TOPICS} topics, and one ETag for each fragment")
    known = {}
    for text, etag in zip(names, etags, strict=True):
        name, _, of = text.partition("/")
        fragment = FRAGMENTS.get(name)
        if fragment is None or viewer.role < fragment.role or len(of) > MAX_TEXT:
            raise Refused(404, f"There is no fragment {name[:100]}")
        known[Ref(name, of, viewer.role)] = etag
    return Page(viewer, frozenset(topics), known)


def allow_origin(host: str, origin: str) -> dict[str, str]:
    """Return the headers for a page of the same host, possibly at another port. Raise Refused for others."""
    name = split_domain_port(host)[0]
    if not name or not validate_host(name, settings.ALLOWED_HOSTS):
        raise Refused(400, "The host is not known")
    if not origin:
        return {}
    if urlsplit(origin).hostname != name:
        raise Refused(403, "Pages of other hosts get no events")
    return {
        "access-control-allow-origin": origin, "access-control-allow-credentials": "true", "vary": "Origin",
    }  # fmt: skip


async def _viewer(cookies: str) -> Viewer:
    key = session_of(cookies)
    try:
        viewer = (await in_thread(viewers_of, [key])).get(key) if key else None
    except DatabaseError as error:
        raise Refused(503, "The database does not answer") from error
    if viewer is None:
        raise Refused(403, "Log in to get events")
    return viewer


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


_STREAM = {
    "content-type": "text/event-stream",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # proxies pass events on at once
    "x-content-type-options": "nosniff",
}


async def _reply(
    send: Send, status: int, body: dict[str, Any], more: Mapping[str, str] | None = None
) -> None:
    headers = {"content-type": "application/json", "cache-control": "no-store", **(more or {})}
    await send({"type": "http.response.start", "status": status, "headers": _encode(headers)})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


def _encode(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _fail(task: asyncio.Task[None]) -> None:
    """End the process after an unexpected error: it is started again, and pages poll meanwhile."""
    if not task.cancelled() and (error := task.exception()) is not None:
        raise SystemExit(1) from error
