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
    """A service to start, or None when one from outside is used, and the settings that lead to it."""

    service: Service | None
    settings: dict[str, str] = field(default_factory=dict)
