"""Write many rows by COPY with unchanged values, without Django's automatic times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.db.models import AutoField, Model
from django.db.models.expressions import DatabaseDefault
from psycopg import sql


def copy_rows(rows: Sequence[Model]) -> None:
    """Copy the rows of one model into its table.

    Columns with database defaults are omitted if the first row does not set them.
    """
    if not rows:
        return
    meta = rows[0]._meta
    fields = [field for field in meta.concrete_fields if not _is_filled_in(field, rows[0])]
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(meta.db_table), sql.SQL(", ").join(sql.Identifier(str(one.column)) for one in fields)
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row([_stored(field, row) for field in fields])


def next_keys(model: type[Model], count: int) -> list[int]:
    """Take this number of keys from the sequence of the model's primary key."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, %s)) FROM generate_series(1, %s)",
            [model._meta.db_table, model._meta.pk.column, count],
        )
        return [key for (key,) in cursor.fetchall()]


def _is_filled_in(field: Any, row: Model) -> bool:
    value = getattr(row, field.attname)
    return isinstance(value, DatabaseDefault) or (isinstance(field, AutoField) and value is None)


def _stored(field: Any, row: Model) -> Any:
    return field.get_db_prep_save(getattr(row, field.attname), connection)
