"""Predicates for untrusted numbers: a boolean is not a number, and NaN is in no range."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeGuard

MAX_INTEGER = 2**63 - 1
MAX_NUMBER = 1e12


def is_whole(value: object, low: int = 0, high: int = MAX_INTEGER) -> TypeGuard[int]:
    """Return whether the value is an integer from `low` to `high`."""
    return type(value) is int and low <= value <= high


def is_number(value: object, low: float = 0, high: float = MAX_NUMBER) -> TypeGuard[float]:
    """Return whether the value is an integer or float from `low` to `high`."""
    return type(value) in (int, float) and low <= value <= high  # type: ignore[operator]
