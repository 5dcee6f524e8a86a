"""The role WMS2 runs as reads and writes rows; it can change neither the audit nor what protects it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from psycopg import errors

from tests.conftest import RUN_URL
from tests.integration.factories import make_request
from wms2_project.access import audit
from wms2_project.models import AuditEvent

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not os.environ.get(RUN_URL), reason="this database was given with one role only"),
]
EVENTS, HISTORY = "wms2_project_auditevent", "requests_app_statustransition"
ATTACKS = {
    "edit a row": "UPDATE EVENTS SET reason = 'another'",
    "edit who did it": "UPDATE EVENTS SET actor = 'user:eve', mark = ''",
    "delete a row": "DELETE FROM EVENTS",
    "empty the table": "TRUNCATE EVENTS",
    "empty it with others": "TRUNCATE EVENTS, HISTORY CASCADE",
    "disable its trigger": "ALTER TABLE EVENTS DISABLE TRIGGER audit_event_append_only",
    "disable all triggers": "ALTER TABLE EVENTS DISABLE TRIGGER ALL",
    "drop its trigger": "DROP TRIGGER audit_event_append_only ON EVENTS",
    "replace the trigger's function": (
        "CREATE OR REPLACE FUNCTION wms2_seal_only() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RETURN NEW; END $$"
    ),
    "switch triggers off": "SET session_replication_role = replica",
    "drop the table": "DROP TABLE EVENTS",
    "rename the table": "ALTER TABLE EVENTS RENAME TO other",
    "take the table": "ALTER TABLE EVENTS OWNER TO CURRENT_USER",
    "grant itself more": "GRANT UPDATE ON EVENTS TO CURRENT_USER; UPDATE EVENTS SET reason = 'x'",
    "add a rule": "CREATE RULE gone AS ON INSERT TO EVENTS DO INSTEAD NOTHING",
    "add a trigger": (
        "CREATE TRIGGER edit BEFORE INSERT ON EVENTS FOR EACH ROW EXECUTE FUNCTION wms2_seal_only()"
    ),
    "create a table beside it": "CREATE TABLE public.wms2_mine (id int)",
    "create a role": "CREATE ROLE wms2_mine SUPERUSER",
    "create a database": "CREATE DATABASE wms2_mine",
    "become a superuser": "ALTER ROLE CURRENT_USER SUPERUSER",
    "run a program": "COPY (SELECT 1) TO PROGRAM 'true'",
    "edit the status history": "UPDATE HISTORY SET reason = 'another'",
    "delete the status history": "DELETE FROM HISTORY",
    "pretend a migration": "INSERT INTO django_migrations (app, name, applied) VALUES ('x', 'y', now())",
}


def named(statement: str) -> str:
    return statement.replace("EVENTS", EVENTS).replace("HISTORY", HISTORY)


@pytest.fixture
def application() -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection of WMS2's role to the test's database, which has sealed and unsealed rows."""
    url = urlsplit(os.environ[RUN_URL])
    call_command("database_access", url.username, verbosity=0)
    make_request()
    audit.record(actor="user:olga", action="change", target="thing", reason="a test")
    database = url._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    with psycopg.connect(database, autocommit=True) as own:
        yield own


def test_the_running_role_can_change_neither_the_audit_nor_its_protection(
    application: psycopg.Connection[Any],
) -> None:
    succeeded = []
    for attack, statement in ATTACKS.items():
        with suppress(errors.InsufficientPrivilege):
            application.execute(named(statement))
            succeeded.append(attack)
    assert succeeded == []
    with pytest.raises(errors.IntegrityConstraintViolation, match="append-only"):
        application.execute(named("UPDATE EVENTS SET number = 99, seal = ''"))  # it is sealed already
    (owner,) = application.execute(
        "SELECT tableowner FROM pg_tables WHERE tablename = %s", [EVENTS]
    ).fetchone() or (None,)
    (itself,) = application.execute("SELECT current_user").fetchone() or (None,)
    assert owner != itself
    with pytest.raises(errors.InsufficientPrivilege):
        application.execute(f"SET ROLE {owner}")


def test_the_running_role_can_do_its_work(application: psycopg.Connection[Any]) -> None:
    closed = application.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND"
        " relkind IN ('r', 'p', 'v', 'm', 'S') AND NOT has_table_privilege(oid, 'SELECT')"
    )
    assert closed.fetchall() == []
    application.execute("SELECT count(*) FROM requests_app_timeline")
    application.execute("UPDATE requests_app_request SET priority = 1")
    application.execute("DELETE FROM sites_app_siteban")
    AuditEvent.objects.bulk_create([AuditEvent(actor="user:a", action="b", target="c", reason="d")])
    sealed = application.execute(named("UPDATE EVENTS SET number = 99, seal = 'x' WHERE number IS NULL"))
    assert sealed.rowcount == 1


def test_the_running_stack_has_these_rights_too() -> None:
    """This is the lab's own database, set up by the lab."""
    with psycopg.connect(os.environ[RUN_URL], autocommit=True) as own:
        for right, held in {"SELECT": True, "INSERT": True, "UPDATE": False, "DELETE": False}.items():
            found = own.execute("SELECT has_table_privilege(%s, %s)", [EVENTS, right]).fetchone()
            assert found == (held,), right
        roles = own.execute(
            "SELECT rolsuper, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = current_user"
        )
        assert roles.fetchone() == (False, False, False)


def test_the_owner_does_not_run_wms2() -> None:
    owner = str(connection.settings_dict["USER"])
    with pytest.raises(CommandError, match="owner of the tables"):
        call_command("database_access", owner)
