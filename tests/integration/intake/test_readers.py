"""The readers against a real RabbitMQ, and kombu's transport on a real Redis."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
import stomp
from django.conf import settings as django_settings
from django.db import DatabaseError
from kombu import Connection
from rest_framework.test import APIClient

from chains_app.intake import process
from chains_app.intake.amqp_reader import AmqpReader
from chains_app.intake.process import Intake, configured_readers
from chains_app.intake.sources import AmqpSource
from chains_app.intake.status import Waiting, intake_parts, write_status
from chains_app.models import Announcement
from chains_app.states import AnnouncementStatus
from lab.rabbitmq import Broker
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def running(intake: Intake) -> Iterator[Intake]:
    thread = Thread(target=intake.run)
    thread.start()
    try:
        yield intake
    finally:
        intake.stop.set()
        thread.join(30)
        assert not thread.is_alive()


def announced(number: int = 1, **values: Any) -> bytes:
    return json.dumps({"uid": f"u{number}", "name": f"/Primary/Era{number}-v1/RAW", **values}).encode()


def uids() -> set[str]:
    return set(Announcement.objects.values_list("uid", flat=True))


def reader(name: str) -> list[Any]:
    return [one for one in configured_readers() if one.name == name]


@pytest.fixture
def states() -> dict[str, Waiting]:
    """Return the last state that each reader reported."""
    return {}


@pytest.fixture
def amqp(queue: str, states: dict[str, Waiting]) -> Iterator[Intake]:
    with running(Intake(reader("amqp"), report=states.__setitem__, report_sec=0.05)) as intake:
        until(lambda: states.get("amqp") == Waiting())
        yield intake


def test_amqp_messages_become_rows_and_are_acknowledged(broker: Broker, queue: str, amqp: Intake) -> None:
    broker.publish("key", *(announced(number) for number in range(20)), exchange=f"{queue}.exchange")
    until(lambda: len(uids()) == 20)

    amqp.stop.set()
    until(lambda: broker.waiting(queue) == 0)
    row = Announcement.objects.get(uid="u7")
    assert (row.dataset_name, row.actor) == ("/Primary/Era7-v1/RAW", "system:intake-amqp")


def test_messages_of_all_sizes_arrive_once_and_in_order(broker: Broker, queue: str) -> None:
    """They wait before the reader subscribes. A frame of RabbitMQ has at most 131,072 bytes."""
    sizes = [0, 1, 60, 131_063, 131_064, 131_065, 131_072, 400_000, *[200] * 1500, 0, 300_000, *range(500)]
    sent = [str(index).encode().ljust(size, b".")[:size] for index, size in enumerate(sizes)]
    broker.declare(queue)
    broker.publish(queue, *sent, confirm=False)
    until(lambda: broker.waiting(queue) == len(sent))
    received, stop = list[bytes](), Event()

    def take(bodies: Sequence[bytes]) -> Future[None]:
        received.extend(bodies)
        if len(received) >= len(sent):
            stop.set()
        done = Future[None]()
        done.set_result(None)
        return done

    AmqpReader(AmqpSource(url=broker.files.amqp_url, queue=queue)).read(
        take=take, stop=stop, ready=lambda: None
    )

    assert received == sent
    assert broker.waiting(queue) == 0


def test_the_same_uid_is_one_announcement(broker: Broker, queue: str, amqp: Intake) -> None:
    broker.publish(queue, announced(1), announced(1, priority=5), announced(2))
    until(lambda: len(uids()) == 2)

    assert Announcement.objects.get(uid="u1").priority is None, "the first one counts"


HUGE = b'{"uid": "huge", "name": "' + b"x" * 10_000_000 + b'"}'
BAD = {
    "not UTF-8": b'{"uid": "\xff\xfe"}',
    "not JSON": b"hello",
    "not a JSON object": b"[1]",
    "bytes": HUGE,
    "/etc/passwd": json.dumps({"uid": "bad", "name": "/etc/passwd; rm -rf /"}).encode(),
    "a text is needed": b'{"uid": 5, "name": "/A/B-v1/RAW"}',
    "printable": b'{"uid": "a\\u0000b", "name": "/A/B-v1/RAW"}',
    "'nmae' is not a field": b'{"uid": "x", "nmae": "/A/B-v1/RAW"}',
    "nested deeper": json.dumps({"uid": "deep", "name": "/A/B-v1/RAW"}).encode()[:-1]
    + b', "parameters": ' + b'{"a":' * 100 + b"1" + b"}" * 101,
}  # fmt: skip


def test_each_unreadable_message_is_one_dead_letter_and_delays_nothing(
    broker: Broker, queue: str, amqp: Intake
) -> None:
    broker.publish(queue, *BAD.values(), *BAD.values(), announced(1))
    until(lambda: "u1" in uids())

    dead = Announcement.objects.filter(status=AnnouncementStatus.DEAD_LETTER)
    assert dead.count() == len(BAD)
    for words in BAD:
        assert dead.filter(reason__contains=words).count() == 1, words
    assert all(len(row.body.encode()) <= 64 * 1024 for row in dead)
    until(lambda: broker.waiting(queue) == 0)


def test_events_of_rucio_announce_closed_datasets_only(broker: Broker, queue: str, amqp: Intake) -> None:
    def event(kind: str, name: str) -> bytes:
        return json.dumps({"event_type": kind, "payload": {"scope": "cms", "name": name}}).encode()

    broker.publish(
        queue, event("close", "/A/One-v1/RAW"), event("CLOSE", "/A/Two-v1/RAW"),
        event("close", "/A/B-v1/RAW#b"), event("transfer-done", "/A/B-v1/RAW"),
        event("close", "/A/One-v1/RAW"), announced(1),
    )  # fmt: skip
    until(lambda: "u1" in uids())

    assert uids() == {"u1", "cms:/A/One-v1/RAW", "cms:/A/Two-v1/RAW"}


def send_by_stomp(broker: Broker, destination: str, *bodies: bytes) -> None:
    """Send as hermes does."""
    files = broker.files
    connection = stomp.Connection12([("127.0.0.1", files.ports["stomp"])], vhost="wms2")
    connection.connect("wms2", files.password, wait=True)
    for body in bodies:
        connection.send(destination, body, headers={"persistent": "true"})
    connection.disconnect()


def test_stomp_messages_become_rows_and_survive_a_restart_of_the_broker(
    broker: Broker, queue: str, states: dict[str, Waiting]
) -> None:
    destination = f"/queue/{queue}.stomp"
    with running(Intake(reader("stomp"), report=states.__setitem__, report_sec=0.05)):
        until(lambda: states.get("stomp") == Waiting())
        send_by_stomp(broker, destination, *(announced(number) for number in range(20)), b"\xff not UTF-8")
        until(lambda: len(uids()) == 21)
        broker.stop()
        until(lambda: states["stomp"].what == "the broker")
        broker.start()
        until(lambda: states["stomp"] == Waiting())
        send_by_stomp(broker, destination, announced(21))
        until(lambda: "u21" in uids())
    until(lambda: broker.waiting(f"{queue}.stomp") == 0)
    assert Announcement.objects.filter(status=AnnouncementStatus.DEAD_LETTER).count() == 1


def test_a_killed_broker_loses_and_repeats_nothing(
    broker: Broker, queue: str, amqp: Intake, states: dict[str, Waiting]
) -> None:
    broker.publish(queue, *(announced(number) for number in range(300)))
    broker.kill()
    until(lambda: states["amqp"].what == "the broker")
    broker.start()
    broker.publish(queue, *(announced(number) for number in range(290, 320)))

    until(lambda: len(uids()) == 320)
    until(lambda: states["amqp"] == Waiting())


def test_a_deleted_queue_is_declared_again(broker: Broker, queue: str, amqp: Intake) -> None:
    with broker.channel() as channel:
        channel.queue_delete(queue)

    def arrived() -> bool:
        broker.publish("key", announced(1), exchange=f"{queue}.exchange")
        return "u1" in uids()

    until(arrived)


def test_during_an_outage_of_the_database_the_reader_waits_and_loses_nothing(
    broker: Broker, queue: str, amqp: Intake, states: dict[str, Waiting], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[int] = []
    store: Callable[..., Any] = process.store_messages

    def failing(rows: Any) -> Any:
        if len(lost) < 2:
            lost.append(len(rows))
            raise DatabaseError("the server is away")
        return store(rows)

    monkeypatch.setattr(process, "store_messages", failing)
    broker.publish(queue, *(announced(number) for number in range(5)))

    until(lambda: len(uids()) == 5)
    assert sum(lost) >= 2
    until(lambda: states["amqp"] == Waiting())


def test_redis_is_read_by_the_same_reader() -> None:
    name = f"intake-test-{time.time_ns()}"
    url = django_settings.REDIS_URL
    with Connection(url) as connection:
        producer = connection.SimpleQueue(name, serializer="json")
        for number in range(3):
            producer.put({"uid": f"u{number}", "name": f"/Primary/Era{number}-v1/RAW"})
        producer.close()
    with running(Intake([AmqpReader(AmqpSource(url=url, queue=name))], report=lambda *_: None)):
        until(lambda: len(uids()) == 3)


def test_readyz_shows_the_wait_of_each_reader(queue: str, settings: Any) -> None:
    write_status("amqp", Waiting("the broker", "ConnectionRefusedError: 127.0.0.1:5"))
    write_status("stomp", Waiting())

    found = {part.name: part for part in intake_parts()}
    assert (found["intake.amqp"].works, found["intake.stomp"].works) == (False, True)
    body = APIClient().get("/api/v1/readyz").json()
    assert body["parts"]["intake.amqp"] == "down"
    assert body["reasons"]["intake.amqp"] == "waiting for the broker"
    assert "127.0.0.1" not in json.dumps(body)


def test_without_a_broker_readyz_names_none(settings: Any) -> None:
    settings.INTAKE_AMQP_URL = settings.INTAKE_STOMP_URL = ""
    settings.INTAKE_AMQP_QUEUE = settings.INTAKE_STOMP_DESTINATION = ""

    assert intake_parts() == []
    assert configured_readers() == []
