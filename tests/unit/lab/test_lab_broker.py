"""The lab's RabbitMQ: only where it is installed, with everything it writes in its own directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.paths import Layout
from lab.ports import PortBook
from lab.services import Ground
from lab.services.broker import ENABLED, HOME, build, prepare


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an installation with the expected directories."""
    home = tmp_path / "rabbitmq"
    (home / "usr/lib/erlang/erts-15/bin").mkdir(parents=True)
    (home / "usr/lib/rabbitmq/lib/rabbitmq_server-4/sbin").mkdir(parents=True)
    monkeypatch.setenv(HOME, str(home))
    monkeypatch.delenv(ENABLED, raising=False)
    return home


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    layout = Layout(home=tmp_path / "state", app=tmp_path, venv=tmp_path)
    layout.make()
    return Ground(layout, PortBook(tmp_path / "ports.json"), tmp_path)


def test_an_installed_broker_is_started_and_named_in_the_settings(home: Path, ground: Ground) -> None:
    made = build(ground)

    assert [service.name for service in made.services] == ["epmd", "broker"]
    assert made.settings["WMS2_INTAKE_AMQP_URL"].startswith("amqp://wms2:")
    assert made.settings["WMS2_INTAKE_STOMP_DESTINATION"] == "/queue/wms2.rucio"


@pytest.mark.parametrize("variables", [{HOME: ""}, {HOME: "/nowhere"}, {ENABLED: "0"}])
def test_without_an_installation_or_if_unwanted_there_is_none(
    home: Path, ground: Ground, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    made = build(ground)

    assert (made.services, made.settings) == ((), {})


def test_the_password_stays_and_only_its_owner_can_read_it(home: Path, tmp_path: Path) -> None:
    ports = {"amqp": 1, "stomp": 2, "dist": 3, "epmd": 4}
    first = prepare(tmp_path / "broker", home, ports)
    second = prepare(tmp_path / "broker", home, ports)

    assert first.password == second.password
    assert (tmp_path / "broker").stat().st_mode & 0o077 == 0
    assert str(tmp_path / "broker") in first.env["RABBITMQ_MNESIA_BASE"]
