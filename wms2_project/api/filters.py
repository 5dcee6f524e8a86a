"""Filters that several lists have."""

from __future__ import annotations

from typing import Any

from django_filters import rest_framework as filters


class AnyOfFilter(filters.MultipleChoiceFilter):  # type: ignore[misc]
    """Rows with one of the given values; a value there is not is told those there are."""

    def __init__(self, *, choices: list[tuple[str, str]], **options: Any) -> None:
        legal = ", ".join(value for value, _ in choices)
        told = {"invalid_choice": f"%(value)s is not one of {legal}"}
        # DISTINCT would sort a million rows
        super().__init__(choices=choices, distinct=False, error_messages=told, **options)
