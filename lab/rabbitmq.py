"""A private RabbitMQ beside the stack: tests and benchmarks start, stop and kill it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kombu.connection import Connection
from kombu.entity import Exchange, Queue

from lab.errors import LabError
from lab.services.broker import PORTS, installation, listens, prepare


class Broker:
    """One broker, known by its own processes."""

    def __init__(self, directory: Path, home: Path) -> None:
        self.files = prepare(directory, home, _free_ports())
        self._epmd = self._spawn("epmd", self.files.epmd)
        _await(lambda: listens(self.files.ports["epmd"]), seconds=20)
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._server = self._spawn("server", self.files.server)
        _await(self.files.listens, seconds=90)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the broker and wait until its sockets are closed."""
        if self._server is not None:
            self._server.send_signal(number)
            self._server.wait(60)
            self._server = None
            names = ("amqp", "stomp", "dist")
            _await(lambda: not any(listens(self.files.ports[name]) for name in names), seconds=30)

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def close(self) -> None:
        self.stop()
        self._epmd.terminate()
        self._epmd.wait(20)

    @contextmanager
    def channel(self) -> Iterator[Any]:
        with Connection(self.files.amqp_url, connect_timeout=10) as connection:
            yield connection.channel()

    def declare(self, queue: str, exchange: str = "") -> None:
        """Declare the queue as a reader does."""
        with self.channel() as channel:
            bound = Exchange(exchange, type="topic", durable=True) if exchange else None
            Queue(queue, bound, routing_key="#", durable=True)(channel).declare()

    def publish(self, queue: str, *bodies: bytes, exchange: str = "", confirm: bool = True) -> None:
        """Publish persistent messages and wait until the broker has confirmed each."""
        with Connection(
            self.files.amqp_url, connect_timeout=10, transport_options={"confirm_publish": confirm}
        ) as connection:
            producer = connection.Producer()
            for body in bodies:
                producer.publish(
                    body, exchange=exchange, routing_key=queue, delivery_mode=2,
                    content_type="application/data", content_encoding="binary",
                )  # fmt: skip

    def waiting(self, queue: str) -> int:
        """Return the number of messages in the queue that no reader holds."""
        with self.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).message_count)

    def _spawn(self, name: str, argv: list[str]) -> subprocess.Popen[bytes]:
        with open(self.files.directory / f"{name}.out", "ab") as out:
            return subprocess.Popen(
                argv, env={**os.environ, **self.files.env}, cwd=self.files.directory,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip


def _free_ports() -> dict[str, int]:
    sockets = [socket.socket() for _ in PORTS]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = {name: int(one.getsockname()[1]) for name, one in zip(PORTS, sockets, strict=True)}
    for one in sockets:
        one.close()
    return ports


def _await(condition: Callable[[], bool], *, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise LabError(f"the broker did not start or end in {seconds:.0f} s")
        time.sleep(0.05)


@contextmanager
def running_broker(directory: Path) -> Iterator[Broker]:
    """Yield a started broker. Raises LabError where RabbitMQ is not installed."""
    home = installation()
    if home is None:
        raise LabError("RabbitMQ is not installed: ./wms2 test installs it where apt can fetch it")
    broker = Broker(directory, home)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()
