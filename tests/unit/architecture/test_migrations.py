"""Migrations are safe while processes of the version before are running."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.postgres.operations import AddConstraintNotValid, AddIndexConcurrently
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

from tests.migration_rules import RELEASED, find_dangers

INDEX = models.Index(fields=["name"], name="by_name")
CHECK = models.CheckConstraint(condition=~models.Q(name=""), name="has_a_name")
NAME = models.CharField(max_length=10)
FIELDS: list[tuple[str, Any]] = [("id", models.BigAutoField(primary_key=True)), ("name", NAME)]


def test_migrations_since_the_release_keep_the_rules() -> None:
    loader = MigrationLoader(None)
    plan = [node for leaf in loader.graph.leaf_nodes() for node in loader.graph.forwards_plan(leaf)]
    state, done, found = ProjectState(), set[tuple[str, str]](), list[str]()
    for node in plan:
        if node in done:
            continue
        done.add(node)
        migration = loader.graph.nodes[node]
        if node[1] > RELEASED.get(node[0], "9999"):
            found += find_dangers(migration, state)
        migration.mutate_state(state, preserve=False)
    assert found == []
    assert set(RELEASED.items()) <= done


def dangers(*operations: Any, **attributes: Any) -> list[str]:
    state = ProjectState()
    for model in ("Thing", "Site"):
        migrations.CreateModel(model, FIELDS).state_forwards("app", state)
    made = type("Migration", (migrations.Migration,), {"operations": operations, **attributes})
    return list(find_dangers(made("0002_next", "app"), state))


SAFE: dict[str, Any] = {
    "a nullable column": migrations.AddField("thing", "size", models.IntegerField(null=True)),
    "a column with a default": migrations.AddField("thing", "size", models.IntegerField(db_default=0)),
    "an index built aside": AddIndexConcurrently("thing", INDEX),
    "an index of a small table": migrations.AddIndex("site", INDEX),
    "an unchecked constraint": AddConstraintNotValid("thing", CHECK),
    "another choice": migrations.AlterField(
        "thing", "name", models.CharField(max_length=10, choices=[("a", "a")])
    ),
    "more space": migrations.AlterField("thing", "name", models.CharField(max_length=20)),
    "a trigger": migrations.RunSQL("CREATE TRIGGER x BEFORE INSERT ON app_thing EXECUTE FUNCTION y()"),
}
UNSAFE: dict[str, tuple[Any, str]] = {
    "a column that older processes leave out": (
        migrations.AddField("thing", "size", models.IntegerField(default=0)),
        "thing.size: older processes insert",
    ),
    "a unique column": (
        migrations.AddField("thing", "key", models.IntegerField(null=True, unique=True)),
        "builds an index under a lock",
    ),
    "a reference": (
        migrations.AddField("thing", "of", models.ForeignKey("app.site", models.PROTECT, null=True)),
        "reads the whole table",
    ),
    "an index": (migrations.AddIndex("thing", INDEX), "use AddIndexConcurrently"),
    "a constraint": (migrations.AddConstraint("thing", CHECK), "use AddConstraintNotValid"),
    "less space": (
        migrations.AlterField("thing", "name", models.CharField(max_length=5)),
        "thing.name: changes the column",
    ),
    "another type": (migrations.AlterField("thing", "name", models.IntegerField()), "changes the column"),
    "a column that goes": (migrations.RemoveField("thing", "name"), "older processes use it"),
    "another name": (migrations.RenameField("thing", "name", "title"), "older processes use it"),
    "an index in SQL": (migrations.RunSQL("CREATE INDEX x ON app_thing (name)"), "add CONCURRENTLY"),
    "a column that goes in SQL": (
        migrations.RunSQL(["ALTER TABLE app_thing DROP COLUMN name"]),
        "takes away",
    ),
    "a constraint in SQL": (
        migrations.RunSQL("ALTER TABLE app_thing ADD CONSTRAINT c CHECK (name <> '')"),
        "add NOT VALID",
    ),
}


@pytest.mark.parametrize("operation", SAFE.values(), ids=SAFE)
def test_safe_operations_are_accepted(operation: Any) -> None:
    assert dangers(operation) == []


@pytest.mark.parametrize(("operation", "message"), UNSAFE.values(), ids=UNSAFE)
def test_unsafe_operations_are_named(operation: Any, message: str) -> None:
    (danger,) = dangers(operation)
    assert message in danger
    assert danger.startswith("app.0002_next: ")


def test_unused_columns_may_be_removed() -> None:
    assert dangers(migrations.RemoveField("thing", "name"), unused_since="1.4") == []


def test_a_table_of_the_same_migration_may_get_anything() -> None:
    made = migrations.CreateModel("Fresh", FIELDS)
    assert dangers(made, migrations.AddIndex("fresh", INDEX), migrations.AddConstraint("fresh", CHECK)) == []
