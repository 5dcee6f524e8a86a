"""Databases of simulations: cloned from one migrated template, with a clock that each session sets.

Functions that tell the time are looked up by the search path, so a schema before `pg_catalog` replaces them
without a change to any query (ADR 18).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

OWNER_URL = "WMS2_MIGRATE_DATABASE_URL"
TEMPLATE = "wms2_simulation"
CLOCK = """
CREATE SCHEMA virtual_time;
CREATE FUNCTION virtual_time.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS
  $$ SELECT pg_catalog.to_timestamp(pg_catalog.current_setting('wms2.now')::float8) $$;
CREATE FUNCTION virtual_time.now() RETURNS timestamptz LANGUAGE sql STABLE AS
  $$ SELECT virtual_time.statement_timestamp() $$;
CREATE FUNCTION virtual_time.transaction_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS
  $$ SELECT virtual_time.statement_timestamp() $$;
CREATE FUNCTION virtual_time.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS
  $$ SELECT virtual_time.statement_timestamp() $$;
"""
# Rows may not be changed, as in any database of WMS2; but the next simulation deletes them.
REUSE = "DROP TRIGGER dag_event_kept ON dags_app_dagevent;" + "".join(
    f"DROP TRIGGER {trigger} ON {table};"
    f" CREATE TRIGGER {trigger} BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {function}();"
    for trigger, table, function in (
        ("dag_event_append_only", "dags_app_dagevent", "wms2_refuse_change"),
        ("status_transition_append_only", "requests_app_statustransition", "wms2_refuse_change"),
        ("audit_event_append_only", "wms2_project_auditevent", "wms2_seal_only"),
    )
)
SETTINGS = {
    "search_path": "virtual_time, public, pg_catalog",
    "synchronous_commit": "off",
    "lock_timeout": "10s",
}


def database_url(name: str) -> str:
    """Return the URL of this database on the server of the environment, as the owner of its tables."""
    owner = os.environ.get(OWNER_URL) or os.environ["DATABASE_URL"]
    return urlunsplit(urlsplit(owner)._replace(path=f"/{name}"))


def clone(template: str, name: str) -> str:
    """Make the database anew from the template; return its URL."""
    with _server() as server:
        _drop(server, name)
        server.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        )
        _set(server, name)
    return database_url(name)


def make_template(name: str = TEMPLATE) -> str:
    """Create an empty database for the template, to be migrated; return its URL."""
    with _server() as server:
        _drop(server, name)
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return database_url(name)


def add_clock(name: str = TEMPLATE) -> None:
    """Add the clock to the migrated template."""
    with psycopg.connect(database_url(name), autocommit=True) as database:
        database.execute(CLOCK + REUSE)


def drop(*names: str) -> None:
    """Drop the databases."""
    with _server() as server:
        for name in names:
            _drop(server, name)


@contextmanager
def _server() -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(database_url("postgres"), autocommit=True) as server:
        yield server


def _drop(server: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _set(server: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    for key, value in SETTINGS.items():
        setting = sql.SQL(".").join(map(sql.Identifier, key.split(".")))
        server.execute(
            sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                sql.Identifier(name), setting, sql.SQL(value if key == "search_path" else f"'{value}'")
            )
        )
