"""docs/operations.md is what the declarations say, and the declarations are complete."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from django.core.management import call_command, get_commands

from chains_app.operations import ALL_OPERATIONS
from wms2_project.api.endpoints import endpoints

DOCUMENTS = {
    ("POST", "requests"),
    ("POST", "requests/batch"),
    ("POST", "requests/plan"),
    ("PUT", "sandboxes"),
    ("POST", "templates/check"),
}
ALIASES = {("DELETE", "requests/<request_name:name>")}  # abort


def test_the_reference_of_operations_is_up_to_date() -> None:
    out = StringIO()
    call_command("reference", "operations", stdout=out)
    document = Path(__file__).parents[3] / "docs" / "operations.md"
    assert document.read_text() == out.getvalue(), "run ./wms2 manage reference operations"


def test_every_writing_endpoint_is_an_operation_or_takes_a_document_or_file() -> None:
    declared = {(one.method, one.url) for one in ALL_OPERATIONS}
    writing = {(method, route) for route, view in endpoints() for method in set(view.roles) - {"GET"}}
    assert writing == declared | DOCUMENTS | ALIASES


def test_every_target_has_a_command() -> None:
    assert {one.target.kind for one in ALL_OPERATIONS} <= set(get_commands())
