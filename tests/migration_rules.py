"""Rules of migrations that let old and new processes run side by side: "A migration" in docs/patterns.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.contrib.postgres.operations import AddConstraintNotValid, AddIndexConcurrently
from django.db.migrations import Migration
from django.db.migrations import operations as ops
from django.db.migrations.state import ProjectState
from django.db.models import NOT_PROVIDED, ForeignKey
from django.db.models.fields import Field

# The last migrations of the running installations. Those that follow keep the rules.
RELEASED = {
    "chains_app": "0003_chain_callbacks",
    "dags_app": "0031_groups_by_time",
    "outputs_app": "0015_files_by_time",
    "requests_app": "0021_search_by_trigrams",
    "sites_app": "0007_storage_prefixes",
    "wms2_project": "0009_audit_nonce",
}
# Tables of some thousand rows at most: they may be locked while an index is built.
SMALL = frozenset(
    {"admissionconfig", "apitoken", "audithead", "gatenews", "identity", "placeset", "quota",
     "retentionrecord", "schedd", "secondarydataset", "site", "siteban", "sitesource", "template"}
)  # fmt: skip
# What the database does not store: changes of these need no lock and disturb no older process.
_NOT_STORED = frozenset(
    {"blank", "choices", "default", "editable", "help_text", "related_name", "validators", "verbose_name"}
)
_TAKEN_AWAY = (ops.RemoveField, ops.DeleteModel, ops.RenameField, ops.RenameModel, ops.AlterModelTable)
_SQL = (
    (r"CREATE\s+(UNIQUE\s+)?INDEX\b(?!\s+CONCURRENTLY)", "builds an index under a lock: add CONCURRENTLY"),
    (r"DROP\s+(TABLE|COLUMN)\b|RENAME\s+(TO|COLUMN)\b", "takes away what older processes use"),
    (r"ALTER\s+(COLUMN\s+\w+\s+)?TYPE\b|SET\s+NOT\s+NULL\b", "reads or rewrites the table under a lock"),
    (r"ADD\s+CONSTRAINT\b(?![^;]*\bNOT\s+VALID\b)", "reads the table under a lock: add NOT VALID"),
)


def find_dangers(migration: Migration, before: ProjectState) -> Iterator[str]:
    """Yield one sentence per operation that would break old or new processes.

    `before` is the state before the migration. A migration that takes something away declares `unused_since`,
    the version since which no process uses it.
    """
    made: set[str] = set()
    state = before.clone()
    for operation in migration.operations:
        if isinstance(operation, ops.CreateModel):
            made.add(operation.name_lower)
        for danger in _dangers(operation, migration, state, made):
            yield f"{migration.app_label}.{migration.name}: {danger}"
        operation.state_forwards(migration.app_label, state)


def _dangers(operation: Any, migration: Migration, state: ProjectState, made: set[str]) -> Iterator[str]:
    table = str(getattr(operation, "model_name_lower", None) or getattr(operation, "name_lower", ""))
    if isinstance(operation, _TAKEN_AWAY) and not getattr(migration, "unused_since", ""):
        yield f"{operation.describe()}: older processes use it. Declare unused_since, one version later"
    if isinstance(operation, ops.RunSQL):
        yield from _sql_dangers(operation)
    if isinstance(operation, ops.SeparateDatabaseAndState):
        for inner in operation.database_operations:
            yield from _dangers(inner, migration, state, made)
    if table in made:
        return
    if isinstance(operation, ops.AddField):
        yield from _new_field_dangers(operation.field, f"{table}.{operation.name}", small=table in SMALL)
    if isinstance(operation, ops.AlterField):
        old = state.models[migration.app_label, table].fields[operation.name]
        yield from _changed_field_dangers(old, operation.field, f"{table}.{operation.name}")
    if table in SMALL:
        return
    if isinstance(operation, ops.AddIndex) and not isinstance(operation, AddIndexConcurrently):
        yield f"{operation.describe()}: use AddIndexConcurrently and atomic = False"
    if isinstance(operation, ops.AddConstraint) and not isinstance(operation, AddConstraintNotValid):
        yield (
            f"{operation.describe()}: use AddConstraintNotValid and, in a further migration,"
            " ValidateConstraint; for a unique constraint, an index built CONCURRENTLY"
        )


def _sql_dangers(operation: ops.RunSQL) -> Iterator[str]:
    text = operation.sql if isinstance(operation.sql, str) else "\n".join(map(str, operation.sql))
    for pattern, danger in _SQL:
        if found := re.search(rf"\b(?:{pattern})", text, re.IGNORECASE):
            yield f"{found[0]} {danger}"


def _new_field_dangers(field: Any, name: str, *, small: bool) -> Iterator[str]:
    if not (field.null or field.many_to_many or _has_database_default(field)):
        yield f"{name}: older processes insert rows without it. Add null=True or a db_default"
    if not small and (field.unique or (field.db_index and not isinstance(field, ForeignKey))):
        yield f"{name}: builds an index under a lock. Add the index by AddIndexConcurrently"
    is_read = isinstance(field, ForeignKey) and (_flag(field, "db_index") or _flag(field, "db_constraint"))
    if is_read and not small:
        yield f"{name}: reads the whole table under a lock. Use db_index=False and db_constraint=False"


def _changed_field_dangers(old: Field[Any, Any], new: Field[Any, Any], name: str) -> Iterator[str]:
    before, after = _stored(old), _stored(new)
    if old.null is False and new.null is True:
        before.pop("null", None)
        after.pop("null", None)
    if before.get("max_length", 0) <= after.get("max_length", 0):
        before.pop("max_length", None)
        after.pop("max_length", None)
    if _has_database_default(new):
        before.pop("db_default", None)
        after.pop("db_default", None)
    if before != after:
        yield f"{name}: changes the column. Add a new one, fill it, and remove the old one a version later"


def _stored(field: Field[Any, Any]) -> dict[str, Any]:
    _, path, args, kwargs = field.deconstruct()
    kept = {key: value for key, value in kwargs.items() if key not in _NOT_STORED}
    return kept | {"type": path, "args": list(args)}


def _flag(field: Any, name: str) -> bool:
    return bool(getattr(field, name))


def _has_database_default(field: Field[Any, Any]) -> bool:
    return field.db_default is not NOT_PROVIDED
