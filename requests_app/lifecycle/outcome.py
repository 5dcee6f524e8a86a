"""What a handler answers: move the request, or look again later. Handlers never write a status."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from requests_app.lifecycle.gate import Gate
from requests_app.states import RequestStatus


@dataclass(frozen=True, slots=True)
class Move:
    """Change the status, for this reason; `changes` are other columns that change with it."""

    to: RequestStatus
    reason: str
    changes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to decide yet: look again in so many seconds. `why` is shown to people.

    `gate` is the one that stops it. `changes` are columns that change with it; unless they say otherwise the
    last error is over.
    """

    seconds: float
    why: str
    gate: str = ""
    changes: dict[str, Any] = field(default_factory=dict)


Outcome = Move | Wait


def hold(reason: str, **evidence: Any) -> Move:
    """A person must decide; the evidence stays on the request."""
    return Move(
        RequestStatus.HELD, reason, {"hold_evidence": {"reason": reason} | evidence, "last_error": reason}
    )


def stop_at(gate: Gate, *, seconds: float | None = None) -> Outcome:
    """What a closed gate means: hold where only a person can open it, else ask it again in a while."""
    if gate.by_hand:
        return hold(gate.detail, gate=gate.name, remedy=gate.remedy, **gate.evidence)
    return Wait(settings.POLL_INTERVAL_SEC if seconds is None else seconds, why=gate.detail, gate=gate.name)
