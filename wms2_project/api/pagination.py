"""Cursor pages: page N costs what page 1 costs, however many rows there are."""

from __future__ import annotations

import re
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError
from rest_framework.exceptions import NotFound
from rest_framework.exceptions import ValidationError as Refused
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request as HttpRequest
from rest_framework.views import APIView


class CursorPages(CursorPagination):
    """Rows in one of the orders the view offers; `page_size` up to 500."""

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500

    def get_ordering(self, request: HttpRequest, queryset: Any, view: Any) -> tuple[str, ...]:
        """The order the caller names, else the view's own; a minus turns it round."""
        wanted = request.query_params.get("ordering", view.order)
        sign = wanted[: wanted.startswith("-")]
        columns: tuple[str, ...] | None = view.orders.get(wanted.removeprefix("-"))
        if columns is None:
            there = " and ".join(view.orders)
            raise Refused({"ordering": f"There is {there}, and with a minus the other way round."})
        return tuple(f"{sign}{column}" for column in columns)

    def get_page_size(self, request: HttpRequest) -> int:
        """The size asked for; one we would not keep to is refused, not bent."""
        given = request.query_params.getlist("page_size")
        if not given:
            return self.page_size
        if (
            len(given) > 1
            or not re.fullmatch(r"[0-9]{1,3}", given[0], re.ASCII)
            or (not 1 <= int(given[0]) <= self.max_page_size)
        ):
            raise Refused({"page_size": f"One whole number from 1 to {self.max_page_size}."})
        return int(given[0])

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """As DRF describes them, with the bounds."""
        found: list[dict[str, Any]] = super().get_schema_operation_parameters(view)
        for one in found:
            if one["name"] == self.page_size_query_param:
                one["schema"] |= {"minimum": 1, "maximum": self.max_page_size}
        return found

    def paginate_queryset(
        self, queryset: Any, request: HttpRequest, view: APIView | None = None
    ) -> list[Any] | None:
        """One page; a cursor somebody made up is a 404, not an error of ours."""
        try:
            return super().paginate_queryset(queryset, request, view=view)
        except (ValidationError, ValueError, DataError) as error:
            raise NotFound(self.invalid_cursor_message) from error
