"""What a gate says of a request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """May the request go on, as far as this gate is concerned?"""

    PASS = "pass"  # noqa: S105 — no password
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Gate:
    """What one gate says."""

    name: str
    verdict: Verdict
    detail: str
    evidence: dict[str, Any] = field(default_factory=dict)
    since: datetime | None = None
    remedy: str = ""
    opens_at: datetime | None = None  # when it opens by itself, if that is known
    by_hand: bool = False  # it opens only if somebody does something: the lifecycle holds the request

    @property
    def blocks(self) -> bool:
        """Does it keep the request from going on?"""
        return self.verdict is Verdict.BLOCK


def first_blocking(asked: Iterable[Gate]) -> Gate | None:
    """Return the first gate that blocks; those after it are not asked."""
    return next((gate for gate in asked if gate.blocks), None)


def passed(name: str, detail: str, **evidence: Any) -> Gate:
    """The gate is open."""
    return Gate(name, Verdict.PASS, detail, evidence)
