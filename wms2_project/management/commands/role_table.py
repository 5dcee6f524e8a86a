"""`manage.py role_table`: print the role that each method of each endpoint needs."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from wms2_project.api.table import render_table


class Command(BaseCommand):
    help = "Print, as Markdown, the least role each method of each endpoint needs."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(render_table())
