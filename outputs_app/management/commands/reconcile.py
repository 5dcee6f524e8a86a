"""`manage.py reconcile NAME`: compare the outputs of a request with DBS and Rucio."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from dags_app.models import Workflow
from outputs_app.reconciliation import Difference
from outputs_app.selectors import announced_count, unannounced
from outputs_app.services import find_differences, repair_outputs
from wms2_project.command_base import refusal, shell_actor
from wms2_project.errors import Wms2Error
from wms2_project.words import counted


class Command(BaseCommand):
    """Compare the announced outputs of one request with DBS and Rucio.

    Exit code 1 if they differ, 2 if they could not be compared.
    """

    help = "Compare the announced outputs of a request with DBS and Rucio, and restore what is missing there."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="name of the request")
        parser.add_argument(
            "--repair", action="store_true", help="register and protect missing outputs again"
        )
        parser.add_argument("--reason", default="", help="reason for the audit; required with --repair")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print each difference and the number of compared blocks."""
        workflow = Workflow.objects.filter(request_name=options["name"]).first()
        if workflow is None:
            raise CommandError(f"there is no request {options['name']}", returncode=2)
        try:
            if options["repair"]:
                found = self._repair(workflow, options["reason"])
            else:
                found = find_differences(workflow=workflow)
        except Wms2Error as error:
            raise refusal(error, returncode=2) from error
        for difference in found:
            self.stdout.write(str(difference))
        self.stdout.write(f"compared: {counted(announced_count(workflow=workflow), 'block')}")
        if moving := unannounced(workflow=workflow):
            self.stdout.write(f"not compared: {moving}")
        if found:
            cure = (
                "check the remaining ones manually"
                if options["repair"]
                else "restore them with --repair --reason WHY"
            )
            raise CommandError(f"differences: {len(found)}; {cure}")
        self.stdout.write("DBS and Rucio agree with the WMS2 database")

    def _repair(self, workflow: Workflow, reason: str) -> list[Difference]:
        actor = shell_actor()
        return repair_outputs(workflow=workflow, actor=actor, reason=reason, now=timezone.now())
