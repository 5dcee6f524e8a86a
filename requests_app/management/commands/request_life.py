"""`manage.py request_life`: the statuses of a request and their transitions as a Mermaid diagram."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from requests_app.life import render_life


class Command(BaseCommand):
    """Prints the diagram of docs/life-of-a-request.md."""

    help = "Print the statuses of a request and their transitions, as in docs/life-of-a-request.md."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(render_life(), ending="")
