"""Collects all errors of a document, so that its author can correct them together."""

from __future__ import annotations

from collections.abc import Mapping

from wms2_project.errors import InvalidInput

MAX_PROBLEMS = 100
MAX_SHOWN = 60


class Problems:
    """One message per field: the first one added."""

    def __init__(self) -> None:
        self._messages: dict[str, str] = {}

    def add(self, path: str, message: str) -> None:
        if not self.full:
            self._messages.setdefault(path, f"{path}: {message}")

    @property
    def count(self) -> int:
        return len(self._messages)

    @property
    def full(self) -> bool:
        """Whether the limit of messages is reached."""
        return len(self._messages) >= MAX_PROBLEMS

    def raise_if_any(self) -> None:
        if self._messages:
            raise refusal(self._messages)


def refusal(messages: Mapping[str, str]) -> InvalidInput:
    """Return the error that refuses a document and names its fields."""
    named = ", ".join(list(messages)[:5]) + (" …" if len(messages) > 5 else "")
    count = "1 field" if len(messages) == 1 else f"{len(messages)} fields"
    return InvalidInput(
        f"The request document is not accepted: {count} to correct ({named})",
        fields=messages,
        cure="Correct these fields and submit again; nothing was stored",
    )


def refuse(path: str, message: str) -> InvalidInput:
    """Return the error for a document that cannot be read further."""
    return refusal({path: f"{path}: {message}"})


def shown(value: object) -> str:
    """Return a value for use in a message: short, on one line, ASCII."""
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
    """Return a field name for use in a message."""
    return ascii(key[:MAX_SHOWN])[1:-1] + ("…" if len(key) > MAX_SHOWN else "") if key else "(empty)"
