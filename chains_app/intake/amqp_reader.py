"""Reads a queue through kombu: RabbitMQ (`amqp://`, `amqps://`), or Redis (`redis://`) as a replacement."""

from __future__ import annotations

import ssl
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Event
from typing import Any

from kombu.connection import Connection
from kombu.entity import Exchange, Queue

from chains_app.intake.buffered_amqp import BufferedTransport, Delivery
from chains_app.intake.sources import BATCH, IDLE_SEC, PREFETCH, AmqpSource, Take

CONNECT_SEC = 10.0
CONSUMER = "wms2-intake"
HEARTBEAT_SEC = 20
MORE_SEC = 0.005  # how long to wait for further messages of a batch
AHEAD = 3  # batches that are stored or wait for it while the next one is read
# Redis: a dead consumer's messages return after this time
REDIS_OPTIONS = {"visibility_timeout": 300, "socket_timeout": 30, "socket_connect_timeout": 5}


class AmqpReader:
    """Reads one queue; declares it, and its exchange, when it connects."""

    name = "amqp"

    def __init__(self, source: AmqpSource) -> None:
        self._source = source
        self._checked = 0.0

    def read(self, *, take: Take, stop: Event, ready: Callable[[], None]) -> None:
        """See `sources.Reader`."""
        inbox: list[Delivery] = []
        with self._connect() as connection:
            channel = connection.channel()
            queue = self._declare(channel)
            channel.basic_qos(0, PREFETCH, False)
            queue.consume(
                CONSUMER, lambda message: inbox.append((message.delivery_tag, _bytes(message.body)))
            )
            ready()
            storing: deque[tuple[Future[None], list[int]]] = deque()
            while storing or not stop.is_set():
                self._fill(connection, inbox, wait=0.0 if storing else IDLE_SEC)
                batch = [] if stop.is_set() else inbox[:BATCH]
                if batch:
                    del inbox[:BATCH]
                    storing.append((take([body for _, body in batch]), [tag for tag, _ in batch]))
                stored = list[int]()
                while storing and (storing[0][0].done() or len(storing) >= AHEAD or not batch):
                    done, tags = storing.popleft()
                    done.result()
                    stored += tags
                _acknowledge(connection, channel, stored)

    def _connect(self) -> Connection:
        source = self._source
        on_redis = source.url.startswith("redis")
        connection = Connection(
            source.url,
            connect_timeout=CONNECT_SEC,
            heartbeat=HEARTBEAT_SEC,
            ssl=self._tls() if source.url.startswith("amqps") else None,
            transport_options=REDIS_OPTIONS if on_redis else {"read_timeout": 60, "write_timeout": 30},
        )
        if not on_redis:
            connection.transport_cls = BufferedTransport
        return connection

    def _tls(self) -> dict[str, Any]:
        known = self._source.ca_file or ssl.get_default_verify_paths().cafile
        return {"cert_reqs": ssl.CERT_REQUIRED, "ca_certs": known}

    def _declare(self, channel: Any) -> Queue:
        """Declare exchange and queue: what is published before a queue exists is lost without an error."""
        source = self._source
        if source.exchange:
            exchange = Exchange(source.exchange, type="topic", durable=True)
            queue = Queue(source.queue, exchange, routing_key=source.routing_key, durable=True)
        else:
            queue = Queue(source.queue, durable=True)
        bound = queue(channel)
        bound.declare()
        return bound

    def _fill(self, connection: Connection, inbox: list[Delivery], *, wait: float) -> None:
        """Wait for a message until the timeout, then take what has arrived, until there is a batch."""
        wait = max(wait, MORE_SEC)
        while len(inbox) < BATCH:
            try:
                connection.drain_events(timeout=wait)
            except TimeoutError:
                break
            if _is_amqp(connection):
                connection.connection.drain_arrived(CONSUMER, inbox.append)
            wait = MORE_SEC
        now = time.monotonic()
        if connection.supports_heartbeats and now - self._checked >= 1.0:
            self._checked = now
            connection.heartbeat_check()


def _acknowledge(connection: Connection, channel: Any, tags: list[int]) -> None:
    if _is_amqp(connection):
        if tags:
            channel.basic_ack(tags[-1], multiple=True)  # all messages up to this one
        return
    for tag in tags:
        channel.basic_ack(tag)


def _is_amqp(connection: Connection) -> bool:
    return bool(connection.transport.driver_type == "amqp")


def _bytes(body: Any) -> bytes:
    return body if isinstance(body, bytes) else str(body).encode(errors="surrogatepass")
