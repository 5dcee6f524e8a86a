"""`manage.py operations`: print the operations reference, or the catalogue of the command line client."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from chains_app.operations import ALL_OPERATIONS
from wms2_project.operations.catalogue import render_catalogue
from wms2_project.operations.document import render_document


class Command(BaseCommand):
    help = "Print docs/operations.md, or with --json cli/operations.json."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the catalogue of the client")

    def handle(self, *args: Any, **options: Any) -> None:
        render = render_catalogue if options["json"] else render_document
        self.stdout.write(render(ALL_OPERATIONS), ending="")
