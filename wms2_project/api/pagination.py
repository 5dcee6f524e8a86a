"""Cursor pages: page N costs what page 1 costs, however many rows there are."""

from __future__ import annotations

from rest_framework.pagination import CursorPagination


class NewestFirst(CursorPagination):
    """Newest rows first; `page_size` up to 500."""

    ordering = ("-created_at", "-id")
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500


class ByName(NewestFirst):
    """Rows in the order of their names."""

    ordering = ("name",)
