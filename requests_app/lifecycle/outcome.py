"""Outcomes of a handler: move the request, or check again later. Handlers never write a status."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from requests_app.lifecycle.gate_result import Gate
from requests_app.states import RequestStatus


@dataclass(frozen=True, slots=True)
class Move:
    """Change the status. `changes` are further columns written with it."""

    to: RequestStatus
    reason: str
    changes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """Check again after `seconds`. `why` is shown to users.

    `gate` names the blocking gate. `changes` are columns written with it. The last error is cleared unless
    `changes` keeps it.
    """

    seconds: float
    why: str
    gate: str = ""
    changes: dict[str, Any] = field(default_factory=dict)


Outcome = Move | Wait


def hold(reason: str, **evidence: Any) -> Move:
    """Return a move to HELD with evidence for the operator."""
    return Move(
        RequestStatus.HELD, reason, {"hold_evidence": {"reason": reason} | evidence, "last_error": reason}
    )


def stop_at(gate: Gate, *, seconds: float | None = None) -> Outcome:
    """Return the outcome of a blocking gate: hold if only an operator can open it, otherwise wait."""
    if gate.needs_operator:
        return hold(gate.detail, gate=gate.name, remedy=gate.remedy, **gate.evidence)
    return Wait(settings.POLL_INTERVAL_SEC if seconds is None else seconds, why=gate.detail, gate=gate.name)
