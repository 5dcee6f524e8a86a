"""docs/request-fields.md, OpenAPI and the columns agree with the field table."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from django.core.management import call_command

from dags_app.models import Workflow
from requests_app.api.inputs import IMPORT_SCHEMA
from requests_app.documents.table import DOCUMENT, FIELD
from requests_app.models import Request


def test_the_reference_of_fields_is_up_to_date() -> None:
    out = StringIO()
    call_command("reference", "request-fields", stdout=out)
    document = Path(__file__).parents[3] / "docs" / "request-fields.md"
    assert document.read_text() == out.getvalue(), "run ./wms2 manage reference request-fields"


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
