"""`manage.py database_access ROLE`: grant a database role what WMS2 needs. Run it as the tables' owner."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import ProgrammingError, connection, transaction
from psycopg import sql

from wms2_project.models import AuditEvent

APPEND_ONLY = """
SELECT DISTINCT t.tgrelid::regclass::text FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE p.proname IN ('wms2_refuse_change', 'wms2_seal_only') AND NOT t.tgisinternal
"""
# Append-only tables whose rows may be deleted when they are old, as a trigger decides
KEPT_FOR_A_WHILE = """
SELECT DISTINCT t.tgrelid::regclass::text FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE p.proname = 'wms2_keep_recent' AND NOT t.tgisinternal
"""
TABLES = """
SELECT relname, relkind IN ('v', 'm') OR relname = 'django_migrations' FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
"""


class Command(BaseCommand):
    requires_system_checks = ()  # like migrations, it runs with DATABASE_URL only
    help = (
        "Grant a role what WMS2 needs to run and nothing else: rows of every table, but append-only tables"
        " only to append. Repeat it after each migration, as the role that owns the tables."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("role", help="the user name in the DATABASE_URL of the processes")

    def handle(self, *args: Any, **options: Any) -> None:
        """Revoke everything, then grant, in one transaction, so that running processes are not affected."""
        role = options["role"]
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_user")
            if cursor.fetchone() == (role,):
                raise CommandError(
                    f"{role} is the role that runs this command. Run it as the owner of the tables:"
                    " set DATABASE_URL to the URL that migrations use"
                )
        try:
            with transaction.atomic():
                _grant(role)
        except ProgrammingError as error:
            raise CommandError(
                f"{str(error).strip()}. Run deploy/postgres/roles.sql as a superuser"
            ) from error
        self.stdout.write(f"{role} may run WMS2")


def _grant(role: str) -> None:
    with connection.cursor() as cursor:

        def run(statement: str, *names: str) -> None:
            cursor.execute(
                sql.SQL(statement).format(*map(sql.Identifier, names)).as_string(cursor.connection)
            )

        cursor.execute(APPEND_ONLY)
        append_only = {table for (table,) in cursor.fetchall()}
        cursor.execute(KEPT_FOR_A_WHILE)
        kept_for_a_while = {table for (table,) in cursor.fetchall()}
        cursor.execute(TABLES)
        tables = cursor.fetchall()
        run("GRANT USAGE ON SCHEMA public TO {}", role)
        run("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {}, PUBLIC", role)
        run("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {}", role)
        for table, read_only in tables:
            if read_only:
                run("GRANT SELECT ON {} TO {}", table, role)
            elif table in append_only:
                run("GRANT SELECT, INSERT ON {} TO {}", table, role)
                if table in kept_for_a_while:
                    run("GRANT DELETE ON {} TO {}", table, role)
            else:
                run("GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {}", table, role)
        run("GRANT UPDATE (number, seal) ON {} TO {}", AuditEvent._meta.db_table, role)
