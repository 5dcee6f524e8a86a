"""`manage intake` as a process: it ends on a signal, and may be killed at any time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.checks import run_checks
from django.db import connection

from chains_app.models import Announcement
from lab.rabbitmq import Broker
from tests.waiting import until
from wms2_project.checks import STARTUP

ROOT = Path(__file__).resolve().parents[3]
MESSAGES = 3000


@contextmanager
def intake(broker: Broker, queue: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command on the database of the test."""
    given = urlsplit(os.environ["DATABASE_URL"])
    env = os.environ | {
        "DATABASE_URL": given._replace(path=f"/{connection.settings_dict['NAME']}").geturl(),
        "WMS2_INTAKE_AMQP_URL": broker.files.amqp_url,
        "WMS2_INTAKE_AMQP_QUEUE": queue,
        "PYTHONPATH": str(ROOT),
        **settings,
    }
    with subprocess.Popen([sys.executable, "manage.py", "intake"], cwd=ROOT, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


def announced(number: int) -> bytes:
    return json.dumps({"uid": f"u{number}", "name": f"/Primary/Era{number}-v1/RAW"}).encode()


@pytest.mark.django_db(transaction=True)
def test_a_killed_intake_loses_and_repeats_nothing(broker: Broker, queue: str) -> None:
    broker.declare(queue)
    broker.publish(queue, *(announced(number) for number in range(MESSAGES)))
    # Dies after the commit of its third batch and before its acknowledgement, so that the batch is
    # redelivered.
    with intake(broker, queue, WMS2_FAILPOINT="intake.stored:3") as process:
        assert process.wait(120) == -signal.SIGKILL
    assert 0 < Announcement.objects.count() < MESSAGES

    with intake(broker, queue) as process:
        until(lambda: Announcement.objects.count() == MESSAGES)
        until(lambda: broker.waiting(queue) == 0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert Announcement.objects.values("uid").distinct().count() == MESSAGES
    assert broker.waiting(queue) == 0, "all of them are acknowledged"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"INTAKE_AMQP_URL": "amqp://somewhere"}, ["wms2.E041"]),
        ({"INTAKE_STOMP_URL": "stomp://somewhere"}, ["wms2.E041"]),
        ({"INTAKE_STOMP_DESTINATION": "/queue/x"}, []),
        ({"INTAKE_AMQP_URL": "http://somewhere", "INTAKE_AMQP_QUEUE": "x"}, ["wms2.E040"]),
        ({"INTAKE_STOMP_URL": "stomp://somewhere", "INTAKE_STOMP_DESTINATION": "/queue/x"}, []),
    ],
)
def test_address_and_queue_have_no_defaults(settings: Any, changes: dict[str, str], found: list[str]) -> None:
    for name in ("INTAKE_AMQP_URL", "INTAKE_AMQP_QUEUE", "INTAKE_STOMP_URL", "INTAKE_STOMP_DESTINATION"):
        setattr(settings, name, changes.get(name, ""))

    assert [one.id for one in run_checks(tags=[STARTUP]) if one.id in ("wms2.E040", "wms2.E041")] == found
