"""`manage.py doctor`: check the configuration and try what it names, one line per check."""

from __future__ import annotations

from typing import Any

from django.core.checks import run_checks
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from sites_app.services.storage_probe import probe_storages

OK, PROBLEM = "ok", "PROBLEM"


class Command(BaseCommand):
    help = "Check the settings and write, verify and delete a file at the storage of every open site."
    requires_system_checks: list[str] = []  # they are printed with the others

    def handle(self, *args: Any, **options: Any) -> None:
        problems = 0
        serious = [message for message in run_checks() if message.is_serious()]
        for message in serious:
            problems += self._line("settings", works=False, detail=str(message))
        if not serious:
            self._line("settings", works=True, detail="all checks passed")
        for probe in probe_storages(now=timezone.now()):
            name = f"storage {probe.site} {probe.prefix}".rstrip()
            problems += self._line(name, works=probe.works, detail=probe.detail)
        if problems:
            raise CommandError(f"{problems} problem{'s' if problems > 1 else ''}")

    def _line(self, name: str, *, works: bool, detail: str) -> bool:
        """Print a check; return True if it failed."""
        shown = " ".join(detail.split())
        self.stdout.write(f"{OK if works else PROBLEM:8}{name}: {shown}")
        return not works
