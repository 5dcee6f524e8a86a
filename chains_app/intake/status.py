"""State of the readers, in Redis: written by the intake, shown in /readyz."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings

from wms2_project.observation.health import Part
from wms2_project.redis_state import ask

_KEY = "wms2:intake:{}"
ALIVE_SEC = 20.0
POLL = "poll"


@dataclass(frozen=True, slots=True)
class Waiting:
    """State of a reader: what it waits for (empty: it reads), and the error that caused the wait."""

    what: str = ""
    error: str = ""

    @classmethod
    def after(cls, what: str, error: Exception) -> Waiting:
        """Return what to wait for after this error."""
        return cls(what, " ".join(f"{type(error).__name__}: {error}".split())[:300])


def write_status(reader: str, waiting: Waiting) -> None:
    """Record that the reader works, or what it waits for."""
    value = json.dumps({**asdict(waiting), "at": time.time()})
    ask(lambda client: client.set(_KEY.format(reader), value, ex=86400), otherwise=None)


def intake_parts() -> list[Part]:
    """Return the state of each configured reader. The addresses are secrets of the intake's own process."""
    queues = {"amqp": settings.INTAKE_AMQP_QUEUE, "stomp": settings.INTAKE_STOMP_DESTINATION}
    parts = [_part(name) for name, queue in queues.items() if queue]
    return [*parts, _part(POLL, needs_process=False)] if settings.INTAKE_POLL_NAMES else parts


def _part(reader: str, *, needs_process: bool = True) -> Part:
    def read(client: Any) -> str | None:
        found: str | None = client.get(_KEY.format(reader))
        return found

    found = ask(read, otherwise=None)
    state = json.loads(found) if found else {}
    name = f"intake.{reader}"
    if needs_process and time.time() - state.get("at", 0.0) > ALIVE_SEC:
        return Part(name, works=False, detail="start manage intake", reason="no intake process runs")
    if not state.get("what"):
        return Part(name, works=True)
    return Part(name, works=False, detail=state["error"], reason=f"waiting for {state['what']}")
