"""Statements that PostgreSQL plans once per connection, for the few that are executed many times a second."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from django.db import connection

_NO_OTHER = sys.maxsize  # Django turns preparation off; this allows it without preparing other statements


def execute_prepared(sql: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Execute a statement of constant text and return its rows. Values are bound by the server.

    Django binds values on the client, so that PostgreSQL would plan each call anew.
    """
    connection.ensure_connection()
    connection.connection.prepare_threshold = _NO_OTHER
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(sql.encode(), values, prepare=True)
        return cursor.fetchall()


def sql_words(words: Iterable[str]) -> str:
    """Return constant words, such as states, as a list for IN. Never for values from outside."""
    return "(" + ", ".join(f"'{word}'" for word in sorted(words)) + ")"
