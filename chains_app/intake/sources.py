"""The configured brokers, and the interface of their readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Event
from typing import Protocol

from django.conf import settings

PREFETCH = 2000  # messages that the broker sends before the first is acknowledged
BATCH = 500  # messages of one transaction
IDLE_SEC = 0.5  # how long a reader waits for the first message before it checks whether to stop
Take = Callable[[Sequence[bytes]], Future[None]]  # done when the messages may be acknowledged


class Reader(Protocol):
    """Reads messages from one broker."""

    name: str

    def read(self, *, take: Take, stop: Event, ready: Callable[[], None]) -> None:
        """Pass messages to `take` and acknowledge them when it is done, until `stop` is set.

        Calls `ready` once the queue is subscribed. Raises if the broker or the queue is lost, or `take`
        failed: what is not acknowledged is delivered again.
        """


@dataclass(frozen=True, slots=True)
class AmqpSource:
    """A queue of RabbitMQ, or of Redis, by the address; with an exchange it is bound to that."""

    url: str
    queue: str
    exchange: str = ""
    routing_key: str = "#"
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class StompSource:
    """A destination of a STOMP broker."""

    url: str
    destination: str
    ca_file: str = ""


def amqp_source() -> AmqpSource | None:
    """Return the configured AMQP queue; None if there is none."""
    if not settings.INTAKE_AMQP_URL:
        return None
    return AmqpSource(
        url=settings.INTAKE_AMQP_URL,
        queue=settings.INTAKE_AMQP_QUEUE,
        exchange=settings.INTAKE_AMQP_EXCHANGE,
        routing_key=settings.INTAKE_AMQP_ROUTING_KEY,
        ca_file=settings.INTAKE_CA_FILE,
    )


def stomp_source() -> StompSource | None:
    """Return the configured STOMP destination; None if there is none."""
    if not settings.INTAKE_STOMP_URL:
        return None
    return StompSource(
        url=settings.INTAKE_STOMP_URL,
        destination=settings.INTAKE_STOMP_DESTINATION,
        ca_file=settings.INTAKE_CA_FILE,
    )
