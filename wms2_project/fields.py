"""Model fields for our enumerations and names: the database refuses what the code would not write."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from wms2_project import grammar


def choices(enum: type[StrEnum]) -> list[tuple[str, str]]:
    """The choices of a field that holds one of the enumeration's values."""
    return [(member.value, member.value.replace("_", " ")) for member in enum]


def one_of(enum: type[StrEnum], *, field: str, name: str) -> models.CheckConstraint:
    """The column holds a value of the enumeration, whoever writes it."""
    values = sorted(member.value for member in enum)
    return models.CheckConstraint(condition=models.Q(**{f"{field}__in": values}), name=name)


def enum_field(enum: type[StrEnum], **options: Any) -> models.CharField[str, str]:
    """A short text column for one of the enumeration's values."""
    return models.CharField(max_length=32, choices=choices(enum), **options)


class LegalName:
    """A validator that applies the grammar; deconstructible, so migrations can name it."""

    def __init__(self, name: str) -> None:
        self.name = grammar.Name(name)

    def __call__(self, value: object) -> None:
        """Refuse what the grammar refuses."""
        if not grammar.matches(self.name, value):
            raise ValidationError(f"not a legal {self.name.value}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LegalName) and other.name is self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def deconstruct(self) -> tuple[str, tuple[str], dict[str, object]]:
        """How a migration writes this validator."""
        return ("wms2_project.fields.LegalName", (self.name.value,), {})


def name_field(name: grammar.Name, **options: Any) -> models.CharField[str, str]:
    """A text column that holds a legal name of this kind."""
    validators: list[Callable[[object], None]] = [LegalName(name.value)]
    return models.CharField(max_length=grammar.MAX_LENGTH, validators=validators, **options)
