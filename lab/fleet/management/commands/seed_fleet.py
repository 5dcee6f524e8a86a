"""`manage.py seed_fleet`: fill the lab's database with a fleet of requests in every state."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from lab.fleet.seeding import FleetExists, seed_fleet


class Command(BaseCommand):
    help = (
        "Fill the database with requests in every state, their rounds, failures, outputs, alerts and history."
        " They stay as they are: no worker takes them, and tasks that observe the pool and the services"
        " are switched off in this stack."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--requests", type=int, default=300, help="number of requests (default: 300)")
        parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same fleet")

    def handle(self, *args: Any, **options: Any) -> None:
        """Refuse outside the lab; print what was made."""
        if not settings.LAB:
            raise CommandError("seed_fleet invents requests and works in the lab only (WMS2_LAB=1)")
        began = time.monotonic()
        try:
            made = seed_fleet(requests=options["requests"], seed=options["seed"], now=timezone.now())
        except FleetExists as error:
            raise CommandError(str(error)) from error
        counts = ", ".join(f"{count} {name}" for name, count in made.items())
        self.stdout.write(f"{counts} in {time.monotonic() - began:.1f} s")
