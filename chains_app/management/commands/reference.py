"""`manage.py reference NAME`: print a document that is derived from the code."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from typing import Any

from django.core.management.base import BaseCommand

from chains_app.operations import ALL_OPERATIONS
from requests_app.documents.reference import render_reference
from requests_app.guide import render_guide
from requests_app.life import render_life
from wms2_project.api.endpoints import render_roles
from wms2_project.operations.catalogue import render_catalogue
from wms2_project.operations.document import render_document

DOCUMENTS: Mapping[str, Callable[[], str]] = {
    "life-of-a-request": render_life,
    "operations": lambda: render_document(ALL_OPERATIONS),
    "operations.json": lambda: render_catalogue(ALL_OPERATIONS),
    "request-fields": render_reference,
    "roles": render_roles,
    "symptoms": render_guide,
}


class Command(BaseCommand):
    help = (
        "Print a document that is derived from the code: docs/NAME.md, operations.json for the command line"
        " client, or the least role that each method of each endpoint needs (roles)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", choices=DOCUMENTS)

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(DOCUMENTS[options["name"]](), ending="")
