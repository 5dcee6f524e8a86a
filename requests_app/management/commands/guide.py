"""`manage.py guide`: print docs/symptoms.md."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from requests_app.guide import render_guide


class Command(BaseCommand):
    help = "Print docs/symptoms.md, what to do about each alert and each reason of a hold."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(render_guide(), ending="")
