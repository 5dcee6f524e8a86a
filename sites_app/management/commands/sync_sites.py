"""`manage.py sync_sites`: synchronise sites with CRIC."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from sites_app.services.sites import sync_sites
from wms2_project.command_base import refusal
from wms2_project.errors import Wms2Error


class Command(BaseCommand):
    help = "Take over sites, their storages and states from CRIC."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--force",
            action="store_true",
            help="Close sites that CRIC no longer lists, even if that is most of them.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            count = sync_sites(now=timezone.now(), force=options["force"])
        except Wms2Error as error:
            raise refusal(error) from error
        self.stdout.write(f"{count} sites")
