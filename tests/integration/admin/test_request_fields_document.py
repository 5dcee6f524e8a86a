"""docs/request-fields.md is what the field table says."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from django.core.management import call_command


def test_the_reference_of_fields_is_up_to_date() -> None:
    out = StringIO()
    call_command("request_fields", stdout=out)
    document = Path(__file__).parents[3] / "docs" / "request-fields.md"
    assert document.read_text() == out.getvalue(), "run ./wms2 manage request_fields > docs/request-fields.md"
