"""docs/operations.md is what the declarations say."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from django.core.management import call_command


def test_the_reference_of_operations_is_up_to_date() -> None:
    out = StringIO()
    call_command("operations", stdout=out)
    document = Path(__file__).parents[3] / "docs" / "operations.md"
    assert document.read_text() == out.getvalue(), "run ./wms2 manage operations > docs/operations.md"
