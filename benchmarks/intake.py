"""B18: announcements from RabbitMQ into rows, against the same rows by batched INSERT … ON CONFLICT."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import psycopg
from django.db import connection

from benchmarks.database import databases
from benchmarks.harness import Measured, alternate, timed
from benchmarks.run import NotRun, Run
from chains_app.intake.amqp_reader import AmqpReader
from chains_app.intake.sources import BATCH, AmqpSource
from chains_app.intake.taking import read_messages, store_messages
from chains_app.services.announcing import NewAnnouncement
from lab.errors import LabError
from lab.rabbitmq import Broker, running_broker

MESSAGES = 10_000
TABLE = "chains_app_announcement"
BARE = f"""
INSERT INTO {TABLE} (uid, dataset_name, template_name, parameters, correlation_id, callback_url, actor,
                     status, reason, body, received_at)
SELECT uid, name, '', '{{}}', '', '', 'bare', status, reason, body, now()
  FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[], %b::text[])
       AS given (uid, name, status, reason, body)
ON CONFLICT DO NOTHING"""  # noqa: S608 — ours
_numbers = count(1)


@contextmanager
def _open_broker() -> Iterator[Broker]:
    with TemporaryDirectory(prefix="wms2-b18-") as directory:
        try:
            with running_broker(Path(directory) / "broker") as broker:
                yield broker
        except LabError as error:
            raise NotRun(str(error)) from error


def make_messages(number: int) -> list[bytes]:
    """Return this number of messages: one in a hundred is malformed, one in ten is repeated."""
    distinct = [_message(index) for index in range(number - number // 10)]
    return [*distinct, *distinct[:: len(distinct) // max(number // 10, 1)][: number - len(distinct)]]


def _message(index: int) -> bytes:
    if index % 100 == 7:
        return f'{{"uid": "broken{index}", "name": '.encode()
    return json.dumps({"uid": f"uid-{index:08d}", "name": f"/Primary{index % 50}/Era{index}-v1/RAW"}).encode()


def take_announcements(run: Run) -> Measured:
    """B18: the queue is filled before. Measured from the subscription until every message is acknowledged.

    Both sides have their connection to the database before, as a process that runs for weeks has.
    """
    number = run.size(MESSAGES, 500)
    messages, broker = make_messages(number), run.shared("broker", _open_broker)
    made = databases(run)
    name = made.copy("intake")
    made.use(name)
    rows = _bare_rows(messages)
    with made.connect(name) as server, _storing_thread() as storing:
        # Vacuum outside the measurement: autovacuum could start at any moment.
        server.execute(f"ALTER TABLE {TABLE} SET (autovacuum_enabled = false)")
        queues = [f"b18-{next(_numbers)}" for _ in range(run.repeat + 1)]
        for queue in queues:
            broker.declare(queue)
            broker.publish(queue, *messages, confirm=False)
        until_waiting = time.monotonic() + 60
        while any(broker.waiting(queue) < number for queue in queues):
            assert time.monotonic() < until_waiting, "the broker does not have all messages"
            time.sleep(0.1)
        left = iter(queues)

        def clear() -> None:
            server.execute(f"TRUNCATE {TABLE} RESTART IDENTITY CASCADE")

        def read() -> float:
            clear()
            return _read(storing, broker, next(left), number)

        pairs = alternate(
            read,
            timed(lambda: _insert(server, rows), before=clear),
            repeat=run.repeat,
        )
        stored = server.execute(f"SELECT count(*) FROM {TABLE}").fetchone()  # noqa: S608 — ours
    assert stored == (number - number // 10,)
    rate = number / sorted(pairs.candidate)[len(pairs.candidate) // 2]
    note = f"{number} messages, {BATCH} at a time: {rate:,.0f}/s"
    return Measured(pairs.rate_percent, pairs.as_samples(), note=note, spread=pairs.spread_percent)


@contextmanager
def _storing_thread() -> Iterator[Executor]:
    """A thread connected to the database, as the intake has one."""
    with ThreadPoolExecutor(1) as storing:
        storing.submit(connection.ensure_connection).result()
        try:
            yield storing
        finally:
            storing.submit(connection.close)


def _read(storing: Executor, broker: Broker, queue: str, number: int) -> float:
    """Read the queue until all messages are stored and acknowledged; return the seconds."""
    taken, stop, began = [0], Event(), [0.0]

    def store(rows: Sequence[NewAnnouncement | None]) -> None:
        store_messages(rows)
        taken[0] += len(rows)
        if taken[0] >= number:
            stop.set()

    gc.collect()
    AmqpReader(AmqpSource(url=broker.files.amqp_url, queue=queue)).read(
        take=lambda bodies: storing.submit(store, read_messages(bodies, source="amqp")),
        stop=stop,
        ready=lambda: began.insert(0, time.perf_counter()),
    )
    return time.perf_counter() - began[0]


def _bare_rows(messages: Sequence[bytes]) -> list[tuple[str, str, str, str, str]]:
    rows = []
    for index, body in enumerate(messages):
        try:
            found = json.loads(body)
            rows.append((found["uid"], found["name"], "pending", "", ""))
        except ValueError:
            rows.append((body.decode(), "", "dead_letter", f"bad message {index}"[:11], body.decode()))
    return rows


def _insert(server: psycopg.Connection[Any], rows: Sequence[tuple[str, ...]]) -> None:
    for start in range(0, len(rows), BATCH):
        columns = [list(column) for column in zip(*rows[start : start + BATCH], strict=True)]
        server.execute(BARE, columns, prepare=True)
