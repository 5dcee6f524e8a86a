"""`manage.py quarantine list` and `manage.py quarantine lift ID --reason …`."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from dags_app.operations import QUARANTINE_OPERATIONS
from dags_app.services.quarantine import in_force
from wms2_project.operations.command import OperationCommand


class Command(OperationCommand):
    help = "List the copies of files in quarantine, or lift the quarantine of one."
    operations = QUARANTINE_OPERATIONS
    others = ("list",)

    def handle(self, *args: Any, **options: Any) -> None:
        """List the copies in force or run the operation."""
        if options["operation"] != "list":
            super().handle(*args, **options)
            return
        for row in in_force(now=timezone.now()).select_related("workflow").order_by("id"):
            declared = f" declared {row.declared_as}" if row.declared_as else ""
            self.stdout.write(
                f"{row.pk}: {row} until {row.expires_at:%F %R}{declared}, {row.exit_code} of"
                f" {row.workflow.request_name}: {row.proof}"
            )
