"""The catalogue that the command line client ships is that of the operations table."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from django.core.management import call_command

ROOT = Path(__file__).resolve().parents[3]


def test_the_client_knows_every_operation() -> None:
    printed = StringIO()
    call_command("operations", "--json", stdout=printed)
    written = (ROOT / "cli" / "wms2_cli" / "operations.json").read_text()
    assert written == printed.getvalue(), "run ./wms2 manage operations --json > cli/wms2_cli/operations.json"
