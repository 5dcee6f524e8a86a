"""`manage.py request_fields`: write the reference of document fields."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from requests_app.documents.reference import render_reference


class Command(BaseCommand):
    help = "Print docs/request-fields.md."

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the document."""
        self.stdout.write(render_reference(), ending="")
