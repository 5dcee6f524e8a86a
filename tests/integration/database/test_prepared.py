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


def test_a_prepared_statement_is_not_planned_again_although_its_values_could_give_a_better_plan() -> None:
    statement = "SELECT count(*) FROM generate_series(1, 9) AS n WHERE n = ANY(%(numbers)s::int[])"

    for _ in range(10):
        assert execute_prepared(statement, {"numbers": [1, 2]}) == [(2,)]

    with connection.cursor() as cursor:
        cursor.execute("SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements")
        plans = [row[1:] for row in cursor.fetchall() if "generate_series" in row[0]]
    assert plans == [(10, 0)]
