"""Result of a gate for one request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """Verdict of a gate."""

    PASS = "pass"  # noqa: S105 — no password
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Gate:
    """Verdict of one gate, with evidence and remedy."""

    name: str
    verdict: Verdict
    detail: str
    evidence: dict[str, Any] = field(default_factory=dict)
    since: datetime | None = None
    remedy: str = ""
    opens_at: datetime | None = None  # when the gate opens automatically, if known
    needs_operator: bool = False  # opens only after an operator's action: the lifecycle holds the request

    @property
    def blocks(self) -> bool:
        return self.verdict is Verdict.BLOCK


def first_blocking(asked: Iterable[Gate]) -> Gate | None:
    """Return the first gate that blocks. Later gates are not evaluated."""
    return next((gate for gate in asked if gate.blocks), None)


def passed(name: str, detail: str, **evidence: Any) -> Gate:
    """Return a gate that passes."""
    return Gate(name, Verdict.PASS, detail, evidence)
