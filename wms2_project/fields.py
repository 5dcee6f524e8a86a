"""Model fields for enumerations and legal names, enforced by the database."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from wms2_project import grammar


def choices(enum: type[StrEnum]) -> list[tuple[str, str]]:
    """Return the choices of a field that holds a value of the enumeration."""
    return [(member.value, member.value.replace("_", " ")) for member in enum]


def one_of(enum: type[StrEnum], *, field: str, name: str) -> models.CheckConstraint:
    """Return a constraint that limits the column to values of the enumeration."""
    values = sorted(member.value for member in enum)
    return models.CheckConstraint(condition=models.Q(**{f"{field}__in": values}), name=name)


def enum_field(enum: type[StrEnum], **options: Any) -> models.CharField[str, str]:
    """Return a text column for a value of the enumeration."""
    return models.CharField(max_length=32, choices=choices(enum), **options)


class LegalName:
    """Validator that applies the grammar. It can be written into migrations."""

    def __init__(self, name: str) -> None:
        self.name = grammar.Name(name)

    def __call__(self, value: object) -> None:
        if not grammar.matches(self.name, value):
            raise ValidationError(f"not a legal {self.name.value}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LegalName) and other.name is self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def deconstruct(self) -> tuple[str, tuple[str], dict[str, object]]:
        return ("wms2_project.fields.LegalName", (self.name.value,), {})


def name_field(name: grammar.Name, **options: Any) -> models.CharField[str, str]:
    """Return a text column for a legal name of this kind."""
    validators: list[Callable[[object], None]] = [LegalName(name.value)]
    return models.CharField(max_length=grammar.MAX_LENGTH, validators=validators, **options)
