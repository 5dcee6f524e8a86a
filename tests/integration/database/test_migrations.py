"""Migrations and models agree, and processes of the version before work on the migrated database."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from tests.migration_rules import RELEASED

pytestmark = pytest.mark.django_db


def test_no_migration_is_missing() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_the_released_version_can_read_and_insert_every_row() -> None:
    released = MigrationLoader(None).project_state(list(RELEASED.items())).apps
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name, is_nullable = 'YES' OR column_default IS NOT NULL"
            " OR is_identity = 'YES' FROM information_schema.columns WHERE table_schema = current_schema()"
        )
        columns: dict[str, dict[str, bool]] = {}
        for table, column, may_be_left_out in cursor.fetchall():
            columns.setdefault(table, {})[column] = may_be_left_out
    models = [model for model in released.get_models() if model._meta.app_label in RELEASED]
    assert len(models) > 30
    for model in models:
        used = {field.column for field in model._meta.concrete_fields}
        now = columns[model._meta.db_table]
        assert used <= now.keys(), model
        assert {column for column in now.keys() - used if not now[column]} == set(), model
