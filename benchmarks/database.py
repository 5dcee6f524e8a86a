"""Databases of the benchmarks: an empty, migrated one, and copies of it to fill.

All are dropped afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.core.management import call_command
from django.db import connection
from django.db.models import AutoField, Model
from psycopg import sql

from benchmarks.places import DATABASE, Places, with_path
from benchmarks.run import NotRun, Run

LOCK = 0x776D7332  # advisory lock: one benchmark at a time on a server


class Databases:
    """Databases of the benchmarks on one server. `use` chooses the one that the application connects to."""

    def __init__(self, places: Places, server: psycopg.Connection[Any]) -> None:
        self._places = places
        self._server = server
        self._made: list[str] = []

    def make(self, name: str, *, template: str = "template0") -> str:
        """Create a database, empty or as a copy of another one. Return its full name."""
        self._server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        self._made.append(name)
        self._server.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        )
        return name

    def copy(self, suffix: str, *, of: str = DATABASE) -> str:
        """Copy the migrated database, or another one, after closing the application's connection."""
        connection.close()
        return self.make(f"{DATABASE}_{suffix}", template=of)

    def use(self, name: str) -> None:
        """Connect the application to this database."""
        connection.close()
        connection.settings_dict["NAME"] = name
        connection.ensure_connection()

    def connect(self, name: str) -> psycopg.Connection[Any]:
        """Return a separate connection without the application's limits, in autocommit mode."""
        return psycopg.connect(with_path(self._places.database_server, name), autocommit=True)

    def drop_all(self) -> None:
        """Drop all databases that were made."""
        connection.close()
        while self._made:
            name = sql.Identifier(self._made.pop())
            self._server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))


@contextmanager
def _open(run: Run) -> Iterator[Databases]:
    places = run.places
    if not places.database_server:
        raise NotRun("DATABASE_URL is not set: run ./wms2 bench")
    try:
        server = psycopg.connect(places.database_server, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        raise NotRun(f"PostgreSQL does not answer: {' '.join(str(error).split())}") from error
    with server:
        held = server.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone()
        if held != (True,):
            raise NotRun("another benchmark runs on this PostgreSQL: wait for it")
        run.versions["PostgreSQL"] = server.info.parameter_status("server_version") or "unknown"
        databases = Databases(places, server)
        try:
            try:
                databases.use(databases.make(DATABASE))
            except psycopg.errors.InsufficientPrivilege as error:
                raise NotRun("the database user may not create databases: grant CREATEDB") from error
            call_command("migrate", verbosity=0, interactive=False)
            yield databases
        finally:
            databases.drop_all()


def databases(run: Run) -> Databases:
    """Return the databases of this run, created at the first call."""
    return run.shared("databases", lambda: _open(run))


def multiply(
    connection_: psycopg.Connection[Any],
    row: Model,
    *,
    over: str,
    changes: dict[str, str],
) -> None:
    """Insert a copy of a row per row of the FROM item `over`; `changes` are SQL expressions by column."""
    fields = [field for field in row._meta.concrete_fields if not isinstance(field, AutoField)]
    columns = [str(field.column) for field in fields]
    unknown = set(changes) - set(columns)
    assert not unknown, f"{row._meta.db_table} has no column {unknown}"
    values = ", ".join(changes.get(column, f't."{column}"') for column in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    table = row._meta.db_table
    statement = (
        f'INSERT INTO "{table}" ({names}) SELECT {values} '  # noqa: S608 — all of it is ours
        f'FROM "{table}" t, {over} WHERE t."{row._meta.pk.column}" = %(row)s'
    )
    connection_.execute(statement.encode(), {"row": row.pk})
