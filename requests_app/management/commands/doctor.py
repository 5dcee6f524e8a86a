"""`manage.py doctor`: check the whole installation, one line per check, with what to fix."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from requests_app.selectors.installation import Finding, examine

OK, PROBLEM = "ok", "PROBLEM"


class Command(BaseCommand):
    help = (
        "Check settings, database, migrations, Redis, queues, workers, pool, services, credentials, clock,"
        " disks, streams and audit; write, verify and delete a file at the storage of every open site."
        " Exit code 1 if a problem was found."
    )
    requires_system_checks: list[str] = []  # they are printed with the others

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--problems", action="store_true", help="print problems only")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print every finding as soon as it is available."""
        problems = 0
        for found in examine(now=timezone.now()):
            problems += not found.works
            if not found.works or not options["problems"]:
                self._print(found)
        if problems:
            raise CommandError(f"{problems} problem{'s' if problems > 1 else ''}")

    def _print(self, found: Finding) -> None:
        detail = " ".join(found.detail.split())
        self.stdout.write(f"{OK if found.works else PROBLEM:8}{found.name}{f': {detail}' if detail else ''}")
        if not found.works and found.cure:
            self.stdout.write(f"{'':8}fix: {found.cure}")
