"""Services of the stack, one module each, which builds a Service and returns the settings to use it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lab.paths import Layout
from lab.ports import PortBook
from lab.service import Service


@dataclass(frozen=True, slots=True)
class Ground:
    """Input of every service."""

    layout: Layout
    ports: PortBook
    sockets: Path


@dataclass(frozen=True, slots=True)
class Provided:
    """A service to start, or None if an external one is used, and the settings to use it."""

    services: tuple[Service, ...]
    settings: dict[str, str] = field(default_factory=dict)
