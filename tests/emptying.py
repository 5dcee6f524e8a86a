"""Empties the database after tests that commit.

Django truncates every table, whether it has rows or not, and creates the content types and permissions
anew. With this many tables that takes longer than most tests.
"""

from __future__ import annotations

from django.db import connection, transaction
from psycopg import sql

KEPT = {"django_content_type", "django_migrations", "auth_permission"}  # what a migrated database consists of
APPEND_ONLY = """
SELECT relation.relname FROM pg_trigger JOIN pg_class relation ON relation.oid = tgrelid
WHERE NOT tgisinternal AND tgtype & 8 <> 0
"""  # 8: the trigger is called for DELETE


def empty_tables() -> None:
    """Delete the rows of all tables that have some."""
    with transaction.atomic(), connection.cursor() as cursor:
        tables = set(connection.introspection.django_table_names(only_existing=True, include_views=False))
        cursor.execute(APPEND_ONLY)
        append_only = {name for (name,) in cursor.fetchall()}
        filled = _filled(sorted(tables - KEPT))
        for name in filled & append_only:  # before the others: no check of a foreign key may be pending
            cursor.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(name)))
        for name in filled - append_only:
            cursor.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))


def _filled(tables: list[str]) -> set[str]:
    has_rows = sql.SQL("SELECT {name} WHERE EXISTS (SELECT FROM {table})")
    queries = [has_rows.format(name=sql.Literal(name), table=sql.Identifier(name)) for name in tables]
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL(" UNION ALL ").join(queries))
        return {name for (name,) in cursor.fetchall()}
