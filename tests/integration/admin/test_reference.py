"""Documents that are derived from the code are up to date, and the tables they come from are complete."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command, get_commands

from chains_app.management.commands.reference import DOCUMENTS
from chains_app.operations import ALL_OPERATIONS
from dags_app.models import Workflow
from requests_app.api.inputs import IMPORT_SCHEMA
from requests_app.documents.table import DOCUMENT, FIELD
from requests_app.models import Request
from wms2_project.api.endpoints import endpoints

ROOT = Path(__file__).parents[3]
OF_THE_CLIENT = {"operations.json": ROOT / "cli" / "wms2_cli" / "operations.json"}
TAKES_DOCUMENT_OR_FILE = {
    ("POST", "requests"),
    ("POST", "requests/batch"),
    ("POST", "requests/plan"),
    ("PUT", "sandboxes"),
    ("POST", "templates/check"),
}
ALIASES = {("DELETE", "requests/<request_name:name>")}  # abort


def printed(name: str) -> str:
    out = StringIO()
    call_command("reference", name, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("name", sorted(DOCUMENTS.keys() - {"roles"}))
def test_a_derived_document_is_up_to_date(name: str) -> None:
    path = OF_THE_CLIENT.get(name, ROOT / "docs" / f"{name}.md")
    assert path.read_text() == printed(name), f"run ./wms2 manage reference {name} > {path.relative_to(ROOT)}"


def test_the_roles_of_every_endpoint_are_printed() -> None:
    table = printed("roles")
    assert "| `admission/config` | viewer |  |  | operator |  |" in table
    assert len(table.splitlines()) == len(list(endpoints())) + 2


def test_every_writing_endpoint_is_an_operation_or_takes_a_document_or_file() -> None:
    declared = {(one.method, one.url) for one in ALL_OPERATIONS}
    writing = {(method, route) for route, view in endpoints() for method in set(view.roles) - {"GET"}}
    assert writing == declared | TAKES_DOCUMENT_OR_FILE | ALIASES


def test_every_target_has_a_command() -> None:
    assert {one.target.kind for one in ALL_OPERATIONS} <= set(get_commands())


def test_every_column_of_the_table_exists() -> None:
    models = {"request": Request, "workflow": Workflow}
    for table, model in models.items():
        known = {column.name for column in model._meta.concrete_fields}
        named = {column.partition(".") for field in FIELD.values() for column in field.columns}
        assert {name for owner, _, name in named if owner == table} <= known


def test_openapi_has_type_limits_and_description_of_every_field() -> None:
    properties = IMPORT_SCHEMA["oneOf"][1]["properties"]
    assert set(properties) == {field.name for field in DOCUMENT} | {"draft"}
    assert properties["memory_mb"] | {"description": ""} == {
        "type": "integer", "minimum": 1, "maximum": 2_000_000, "description": "",
    }  # fmt: skip
    assert all(one["type"] and one["description"] for one in properties.values())
