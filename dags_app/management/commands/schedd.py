"""`manage.py schedd list` and `manage.py schedd OPERATION NAME --reason …`."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from dags_app.models import Schedd
from dags_app.operations import SCHEDD_OPERATIONS
from dags_app.services.schedds import known_schedds
from wms2_project.operations.command import KEY, OperationCommand


class Command(OperationCommand):
    help = "List the schedds, or drain, fence or enable one."
    operations = SCHEDD_OPERATIONS
    others = ("list",)

    def add_options(self, parser: ArgumentParser) -> None:
        """Add `--keep`, which start-up scripts use."""
        parser.add_argument(
            "--keep", action="store_true", help="do nothing if an operator has set this schedd before"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """List the schedds or run the operation, then show them."""
        name = options.get(f"{KEY}name")
        kept = Schedd.objects.filter(name=name, version__gt=0)
        if options["operation"] != "list" and not (options.get("keep") and kept.exists()):
            super().handle(*args, **options)
        for row in known_schedds():
            if name not in (None, row.name):
                continue
            ends = f" until {row.drain_deadline:%F %T}" if row.drain_deadline else ""
            silent = f", silent since {row.silent_since:%F %T}" if row.silent_since else ""
            self.stdout.write(f"{row.name}: {row.status}{ends}{silent} {row.reason}".rstrip())
