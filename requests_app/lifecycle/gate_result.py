"""Result of a gate for one request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from wms2_project.api.bodies import INTERNAL


class Verdict(StrEnum):
    """Verdict of a gate."""

    PASS = "pass"  # noqa: S105 — no password
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Gate:
    """Result of one gate."""

    name: str
    verdict: Verdict
    detail: str
    evidence: dict[str, Any] = field(default_factory=dict)
    since: datetime | None = None
    remedy: str = ""
    opens_at: Annotated[datetime | None, "When the gate opens automatically, if known."] = None
    # Opens only after an operator's action: the lifecycle holds the request.
    needs_operator: Annotated[bool, INTERNAL] = False

    @property
    def blocks(self) -> bool:
        return self.verdict is Verdict.BLOCK


def first_blocking(asked: Iterable[Gate]) -> Gate | None:
    """Return the first gate that blocks. Later gates are not evaluated."""
    return next((gate for gate in asked if gate.blocks), None)


def passed(name: str, detail: str, **evidence: Any) -> Gate:
    """Return a gate that passes."""
    return Gate(name, Verdict.PASS, detail, evidence)
