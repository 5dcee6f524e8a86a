"""The intake process: one thread per broker, which reconnects after every lost connection."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from threading import Event, Thread

from django.db import DatabaseError, connection

from chains_app.intake.amqp_reader import AmqpReader
from chains_app.intake.sources import Reader, amqp_source, stomp_source
from chains_app.intake.status import Waiting, write_status
from chains_app.intake.stomp_reader import StompReader
from chains_app.intake.taking import read_messages, store_messages
from chains_app.services.announcing import NewAnnouncement
from wms2_project.observation import counters

logger = logging.getLogger(__name__)
REPORT_SEC = 2.0
FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC = 0.5, 15.0


def configured_readers() -> list[Reader]:
    """Return a reader for each broker of the settings."""
    amqp, stomp = amqp_source(), stomp_source()
    return [*([AmqpReader(amqp)] if amqp else []), *([StompReader(stomp)] if stomp else [])]


class Intake:
    """Runs readers until it is stopped. A reader that loses its broker, queue or database waits for it."""

    def __init__(
        self,
        readers: Sequence[Reader],
        *,
        report: Callable[[str, Waiting], None] = write_status,
        report_sec: float = REPORT_SEC,
    ) -> None:
        self._readers = readers
        self._report, self._report_sec = report, report_sec
        self._waiting = {reader.name: Waiting("the broker") for reader in readers}
        self.stop = Event()

    def run(self) -> None:
        """Run until `stop` is set."""
        threads = [Thread(target=self._keep_reading, args=[one], name=one.name) for one in self._readers]
        for thread in threads:
            thread.start()
        while not self.stop.is_set():
            for name, waiting in self._waiting.items():
                self._report(name, waiting)
            self.stop.wait(self._report_sec)
        for thread in threads:
            thread.join()

    def _keep_reading(self, reader: Reader) -> None:
        pause = FIRST_PAUSE_SEC
        while not self.stop.is_set():
            try:
                self._read(reader)
            except DatabaseError as error:
                went_well = self._wait(reader.name, "the database", error)
            except Exception as error:  # noqa: BLE001 - whatever a broker does, the intake waits for it
                went_well = self._wait(reader.name, "the broker", error)
            else:
                break
            pause = FIRST_PAUSE_SEC if went_well else min(pause * 2, LONGEST_PAUSE_SEC)
            self.stop.wait(pause)

    def _read(self, reader: Reader) -> None:
        """Read until the intake is stopped; a second thread stores, with a database connection of its own."""
        with ThreadPoolExecutor(1, thread_name_prefix=f"{reader.name}-store") as storing:
            try:
                reader.read(
                    take=partial(self._take, reader.name, storing),
                    stop=self.stop,
                    ready=partial(self._ready, reader.name),
                )
            finally:
                storing.submit(connection.close)

    def _take(self, name: str, storing: Executor, bodies: Sequence[bytes]) -> Future[None]:
        """Read messages in this thread, while those before them are stored."""
        return storing.submit(self._store, name, read_messages(bodies, source=name))

    def _store(self, name: str, rows: Sequence[NewAnnouncement | None]) -> None:
        taken = store_messages(rows)
        for result, number in (
            ("announced", taken.announcements), ("dead", taken.dead_letters), ("ignored", taken.ignored),
        ):  # fmt: skip
            if number:
                counters.count(counters.INTAKE, name, result, number=number)

    def _ready(self, name: str) -> None:
        logger.info("%s: subscribed", name)
        self._waiting[name] = Waiting()

    def _wait(self, name: str, what: str, error: Exception) -> bool:
        """Record what the reader waits for; return whether it worked before."""
        logger.warning("%s: waiting for %s: %s: %s", name, what, type(error).__name__, error)
        worked, self._waiting[name] = not self._waiting[name].what, Waiting.after(what, error)
        return worked


def stop_on_signals(intake: Intake) -> None:
    """Stop the intake on SIGTERM and SIGINT, after the current batch."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: intake.stop.set())
