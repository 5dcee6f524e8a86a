"""Cursor pages: page N costs what page 1 costs, however many rows there are."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request as HttpRequest
from rest_framework.views import APIView


class NewestFirst(CursorPagination):
    """Newest rows first; `page_size` up to 500."""

    ordering: tuple[str, ...] = ("-created_at", "-id")
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500

    def paginate_queryset(
        self, queryset: Any, request: HttpRequest, view: APIView | None = None
    ) -> list[Any] | None:
        """One page; a cursor somebody made up is a 404, not an error of ours."""
        try:
            return super().paginate_queryset(queryset, request, view=view)
        except (ValidationError, ValueError) as error:
            raise NotFound(self.invalid_cursor_message) from error


class ByName(NewestFirst):
    """Rows in the order of their names."""

    ordering = ("name",)


class OldestFirst(NewestFirst):
    """Rows in the order they were written."""

    ordering = ("id",)
