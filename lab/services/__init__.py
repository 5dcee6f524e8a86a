"""One module per service: each builds a Service and says what the application must know to use it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lab.paths import Layout
from lab.ports import PortBook
from lab.service import Service


@dataclass(frozen=True, slots=True)
class Ground:
    """What every service is built on."""

    layout: Layout
    ports: PortBook
    sockets: Path


@dataclass(frozen=True, slots=True)
class Provided:
    """The services to start, none when one from outside is used, and the settings that lead to them."""

    services: tuple[Service, ...]
    settings: dict[str, str] = field(default_factory=dict)
