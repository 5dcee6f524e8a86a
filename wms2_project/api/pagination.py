"""Cursor pages: every page costs the same, regardless of the number of rows and of equal values.

A cursor holds all columns of the order, so it identifies one row. Rows beyond it are found through an index
of these columns.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlencode

from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import F, Q
from django.db.models.fields.tuple_lookups import Tuple, TupleGreaterThan, TupleLessThan
from rest_framework.exceptions import NotFound
from rest_framework.exceptions import ValidationError as Refused
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request as HttpRequest
from rest_framework.utils.urls import remove_query_param, replace_query_param
from rest_framework.views import APIView


class CursorPages(CursorPagination):
    """Rows in one of the orders the view offers; `page_size` up to 500."""

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500

    def get_ordering(self, request: HttpRequest, queryset: Any, view: Any) -> tuple[str, ...]:
        """Return the columns of the requested order, or of the view's default. A minus reverses it."""
        wanted = request.query_params.get("ordering", view.order)
        columns: tuple[str, ...] | None = view.orders.get(wanted.removeprefix("-"))
        if columns is None:
            there = " and ".join(view.orders)
            raise Refused({"ordering": f"There is {there}; a leading minus reverses the order."})
        return _turned(columns) if wanted.startswith("-") else columns

    def get_page_size(self, request: HttpRequest) -> int:
        """Return the requested size. Raise if it is out of range."""
        given = request.query_params.getlist("page_size")
        if not given:
            return self.page_size
        if (
            len(given) > 1
            or not re.fullmatch(r"[0-9]{1,3}", given[0], re.ASCII)
            or (not 1 <= int(given[0]) <= self.max_page_size)
        ):
            raise Refused({"page_size": f"Must be a whole number from 1 to {self.max_page_size}."})
        return int(given[0])

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """Add the range of `page_size`."""
        found: list[dict[str, Any]] = super().get_schema_operation_parameters(view)
        for one in found:
            if one["name"] == self.page_size_query_param:
                one["schema"] |= {"minimum": 1, "maximum": self.max_page_size}
        return found

    def paginate_queryset(
        self, queryset: Any, request: HttpRequest, view: APIView | None = None
    ) -> list[Any] | None:
        """Return one page. An invalid cursor is a 404."""
        self.request, self.base_url = request, request.build_absolute_uri()
        self.page_size = self.get_page_size(request)
        self.columns = self.get_ordering(request, queryset, view)
        try:
            backwards, position = _decoded(request.query_params.get(self.cursor_query_param, ""))
            order = _turned(self.columns) if backwards else self.columns
            rows = queryset.order_by(*order)
            found = list((rows.filter(beyond(order, position)) if position else rows)[: self.page_size + 1])
        except (ValidationError, ValueError, DataError) as error:
            raise NotFound(self.invalid_cursor_message) from error
        more, self.page = len(found) > self.page_size, found[: self.page_size]
        if backwards:
            self.page.reverse()
        self.has_next, self.has_previous = (bool(position), more) if backwards else (more, bool(position))
        return self.page

    def get_next_link(self) -> str | None:
        if not self.has_next:
            return None
        return self._link(self.page[-1]) if self.page else self._without_cursor()

    def get_previous_link(self) -> str | None:
        return self._link(self.page[0] if self.page else None, r="1") if self.has_previous else None

    def _link(self, row: Any, **tokens: str) -> str:
        names = [column.removeprefix("-") for column in self.columns] if row is not None else []
        values = [str(row[name] if isinstance(row, dict) else getattr(row, name)) for name in names]
        cursor = b64encode(urlencode(tokens | {"p": values}, doseq=True).encode()).decode()
        return str(replace_query_param(self.base_url or "", self.cursor_query_param, cursor))

    def _without_cursor(self) -> str:
        return str(remove_query_param(self.base_url or "", self.cursor_query_param))


def beyond(order: Sequence[str], values: Sequence[Any]) -> Any:
    """Return the condition for rows after the one with these values of the first columns of the order."""
    if len(values) > len(order):
        raise ValueError("more values than columns")
    pairs = [(column.removeprefix("-"), value) for column, value in zip(order, values, strict=False)]
    down = [column.startswith("-") for column in order[: len(values)]]
    if len(set(down)) == 1:  # one comparison of rows, which an index answers
        lookup = TupleLessThan if down[0] else TupleGreaterThan
        return lookup(Tuple(*(F(name) for name, _ in pairs)), tuple(value for _, value in pairs))
    found, same = Q(), Q()
    for (name, value), falls in zip(pairs, down, strict=True):
        after = same & Q(**{f"{name}__{'lt' if falls else 'gt'}": value})
        found, same = found | after, same & Q(**{name: value})
    return found


def _turned(columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(column[1:] if column.startswith("-") else f"-{column}" for column in columns)


def _decoded(cursor: str) -> tuple[bool, list[str]]:
    """Return whether the page lies before the position, and the position."""
    tokens = parse_qs(b64decode(cursor.encode("ascii")).decode("ascii"), keep_blank_values=True)
    return tokens.get("r") == ["1"], tokens.get("p", [])
