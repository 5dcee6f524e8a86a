"""Statements that PostgreSQL plans once per connection."""

from __future__ import annotations

import pytest
from django.db import connection

from wms2_project.postgresql.prepared import execute_prepared

pytestmark = pytest.mark.django_db


def prepared() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        return [row[0] for row in cursor.fetchall()]


def test_a_statement_is_prepared_once_and_no_other_statement_is() -> None:
    before = prepared()

    answers = [execute_prepared("SELECT %(number)s::int + 1", {"number": number}) for number in (1, 2, 3)]

    assert answers == [[(2,)], [(3,)], [(4,)]]
    assert [one for one in prepared() if one not in before] == ["SELECT $1::int + 1"]
