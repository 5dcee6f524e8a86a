"""State of a stack in ``run/state.json``, and whether its supervisor is alive."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lab.files import read_json, write_atomically
from lab.paths import Layout
from lab.processes import started_at


class Phase(StrEnum):
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class ServiceState:
    """A supervised process; pid 0 while it waits to be started again."""

    name: str
    pid: int
    started_at: int | None
    since: float
    restarts: int
    deaths: int = 0  # in a row
    failing: bool = False  # it ended too often in a row, and has not stayed up since
    last_death: str = ""
    held: bool = False  # kept down by request
    log: str = ""

    @property
    def alive(self) -> bool:
        return bool(self.pid) and started_at(self.pid) == self.started_at


@dataclass(frozen=True, slots=True)
class StackState:
    pid: int
    started_at: int | None
    since: float
    phase: Phase
    urls: dict[str, str] = field(default_factory=dict)
    services: tuple[ServiceState, ...] = ()

    @property
    def alive(self) -> bool:
        return started_at(self.pid) == self.started_at

    @property
    def whole(self) -> bool:
        """Return whether all wanted services run and stay up."""
        return self.phase is Phase.READY and all(s.alive and not s.failing for s in self.services)

    @property
    def failing(self) -> tuple[ServiceState, ...]:
        return tuple(service for service in self.services if service.failing)


def save_state(layout: Layout, state: StackState) -> None:
    write_atomically(layout.state, json.dumps(dataclasses.asdict(state)))


def load_state(layout: Layout) -> StackState | None:
    """Return the state of the running stack; None if none runs."""
    state = parse_state(read_json(layout.state))
    return state if state is not None and state.alive and is_locked(layout) else None


def parse_state(content: dict[str, Any]) -> StackState | None:
    try:
        services = tuple(ServiceState(**service) for service in content["services"])
        return StackState(**{**content, "phase": Phase(content["phase"]), "services": services})
    except (KeyError, TypeError, ValueError):  # damaged or of another program
        return None


def is_locked(layout: Layout) -> bool:
    """Return whether a supervisor holds this state directory."""
    try:
        descriptor = os.open(layout.lock, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def take_lock(layout: Layout) -> int | None:
    """Become the supervisor of this state directory until the process ends; None if there is another."""
    descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
