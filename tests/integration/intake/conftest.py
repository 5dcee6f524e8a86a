"""A private RabbitMQ, and a new queue per test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from lab.rabbitmq import Broker, running_broker
from lab.services.broker import installation

_numbers = count(1)


@pytest.fixture(scope="session")
def _broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if installation() is None:
        pytest.skip("RabbitMQ is not installed: ./wms2 test installs it where apt can fetch it")
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def broker(_broker: Broker) -> Broker:
    """Return the broker, restarted if an earlier test failed while it was down."""
    if not _broker.files.listens():
        _broker.stop()
        _broker.start()
    return _broker


@pytest.fixture
def queue(broker: Broker, settings: Any) -> str:
    """Return a new queue, set in the settings."""
    name = f"datasets{next(_numbers)}"
    settings.INTAKE_AMQP_URL, settings.INTAKE_AMQP_QUEUE = broker.files.amqp_url, name
    settings.INTAKE_AMQP_EXCHANGE = f"{name}.exchange"
    settings.INTAKE_STOMP_URL, settings.INTAKE_STOMP_DESTINATION = (
        broker.files.stomp_url,
        f"/queue/{name}.stomp",
    )
    return name
