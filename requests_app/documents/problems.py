"""Collects everything wrong with a document, so that its author mends it in one go."""

from __future__ import annotations

from collections.abc import Mapping

from wms2_project.errors import InvalidInput

MAX_PROBLEMS = 100
MAX_SHOWN = 60


class Problems:
    """One message per field; the first one told about a field stands."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def add(self, path: str, message: str) -> None:
        if not self.full:
            self._told.setdefault(path, f"{path}: {message}")

    @property
    def count(self) -> int:
        return len(self._told)

    @property
    def full(self) -> bool:
        """Enough has been told; looking for more would only cost time."""
        return len(self._told) >= MAX_PROBLEMS

    def raise_if_any(self) -> None:
        if self._told:
            raise refusal(self._told)


def refusal(told: Mapping[str, str]) -> InvalidInput:
    """The error that refuses a whole document, naming its fields."""
    named = ", ".join(list(told)[:5]) + (" …" if len(told) > 5 else "")
    count = "1 field" if len(told) == 1 else f"{len(told)} fields"
    return InvalidInput(
        f"The request document is not accepted: {count} to mend ({named})",
        fields=told,
        cure="Correct the fields named and submit again; nothing was stored",
    )


def refuse(path: str, message: str) -> InvalidInput:
    """The error for a document so misshapen that reading on makes no sense."""
    return refusal({path: f"{path}: {message}"})


def shown(value: object) -> str:
    """A value as a message may repeat it: short, on one line, ASCII."""
    if isinstance(value, str):
        return ascii(value[:MAX_SHOWN]) + ("…" if len(value) > MAX_SHOWN else "")
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int) and value.bit_length() > 64:
        return "a huge number"
    if isinstance(value, int | float):
        return repr(value)
    return "an object" if isinstance(value, Mapping) else "a list"


def key_shown(key: str) -> str:
    """A field name as a message may repeat it."""
    return ascii(key[:MAX_SHOWN])[1:-1] + ("…" if len(key) > MAX_SHOWN else "") if key else "(empty)"
