"""Reads a destination of ActiveMQ or RabbitMQ through stomp.py, for example that of Rucio's hermes."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any
from urllib.parse import unquote, urlsplit

import stomp
from stomp.utils import Frame

from chains_app.intake.sources import BATCH, IDLE_SEC, PREFETCH, StompSource, Take

CONNECT_SEC = 10.0
HEARTBEATS_MS = (10_000, 10_000)
SUBSCRIPTION = "wms2"


class StompLost(Exception):
    """The broker closed the connection or refused the subscription."""


class _Inbox(stomp.ConnectionListener):  # type: ignore[misc]
    """Frames in the order of their arrival.

    The last item is a text: the reason why the connection was lost.
    """

    def __init__(self) -> None:
        self.frames: SimpleQueue[Frame | str] = SimpleQueue()
        self._error = ""

    def on_message(self, frame: Frame) -> None:
        self.frames.put(frame)

    def on_error(self, frame: Frame) -> None:
        body = frame.body.decode(errors="replace") if isinstance(frame.body, bytes) else str(frame.body)
        self._error = f"{frame.headers.get('message', 'error')}: {body}".strip()[:300]

    def on_disconnected(self) -> None:
        self.frames.put(self._error or "the broker closed the connection")


class StompReader:
    """Reads one destination; on RabbitMQ, `/queue/NAME` is declared by subscribing to it."""

    name = "stomp"

    def __init__(self, source: StompSource) -> None:
        self._source = source

    def read(self, *, take: Take, stop: Event, ready: Callable[[], None]) -> None:
        """See `sources.Reader`."""
        inbox = _Inbox()
        connection = self._connect(inbox)
        try:
            connection.subscribe(
                self._source.destination,
                id=SUBSCRIPTION,
                ack="client",  # an acknowledgement covers all earlier messages
                headers={
                    "prefetch-count": str(PREFETCH),  # RabbitMQ
                    "activemq.prefetchSize": str(PREFETCH),
                    "durable": "true",
                    "auto-delete": "false",
                },
            )
            ready()
            while not stop.is_set():
                frames = _batch(inbox)
                if frames:
                    take([_bytes(frame.body) for frame in frames]).result()
                    connection.ack(frames[-1].headers["ack"])
        finally:
            if connection.is_connected():
                connection.disconnect()

    def _connect(self, inbox: _Inbox) -> Any:
        address = urlsplit(self._source.url)
        place = [(address.hostname or "", address.port or 61613)]
        connection = stomp.Connection12(
            place,
            vhost=unquote(address.path.lstrip("/")) or None,
            heartbeats=HEARTBEATS_MS,
            reconnect_attempts_max=1,
            timeout=CONNECT_SEC,
            auto_decode=False,
        )
        if address.scheme == "stomp+ssl":
            connection.set_ssl(for_hosts=place, ca_certs=self._source.ca_file or None)
        connection.set_listener("intake", inbox)
        connection.connect(unquote(address.username or ""), unquote(address.password or ""), wait=True)
        return connection


def _batch(inbox: _Inbox) -> list[Frame]:
    """Return the frames that have arrived, at most a batch. Raises StompLost if the connection is lost."""
    frames: list[Frame] = []
    wait = IDLE_SEC
    while len(frames) < BATCH:
        try:
            found = inbox.frames.get(timeout=wait) if wait else inbox.frames.get_nowait()
        except Empty:
            break
        if isinstance(found, str):
            raise StompLost(found)
        frames.append(found)
        wait = 0.0
    return frames


def _bytes(body: Any) -> bytes:
    return body if isinstance(body, bytes) else str(body).encode(errors="surrogatepass")
