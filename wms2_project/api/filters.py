"""Filters shared by several lists."""

from __future__ import annotations

from typing import Any

from django_filters import rest_framework as filters


class AnyOfFilter(filters.MultipleChoiceFilter):  # type: ignore[misc]
    """Filter by one or more values. The error for an unknown value lists the known ones."""

    def __init__(self, *, choices: list[tuple[str, str]], **options: Any) -> None:
        legal = ", ".join(value for value, _ in choices)
        messages = {"invalid_choice": f"%(value)s is not one of {legal}"}
        # DISTINCT would sort a million rows
        super().__init__(choices=choices, distinct=False, error_messages=messages, **options)
