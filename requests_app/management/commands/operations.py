"""`manage.py operations`: print the operations reference."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from requests_app.operations import ALL_OPERATIONS
from wms2_project.operations.document import render_document


class Command(BaseCommand):
    help = "Print docs/operations.md."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(render_document(ALL_OPERATIONS), ending="")
