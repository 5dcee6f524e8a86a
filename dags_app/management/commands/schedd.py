"""`manage.py schedd`: list the schedds, drain one, fence one that is lost, enable it again."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from dags_app.models import Schedd
from dags_app.services.schedds import drain_schedd, enable_schedd, fence_schedd, known_schedds
from wms2_project.errors import InvalidInput, Wms2Error
from wms2_project.shell import refusal, shell_actor


class Command(BaseCommand):
    help = (
        "List the schedds; drain one (no new DAGs; what runs moves on at the deadline);"
        " fence a lost one (you vouch that nothing runs there: its DAGs resume elsewhere); enable it again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to do, with which schedd, why."""
        parser.add_argument("action", choices=["list", "drain", "fence", "enable"])
        parser.add_argument("name", nargs="?", default="")
        parser.add_argument("--reason", default="")
        parser.add_argument("--deadline-minutes", type=float, help="when what still runs there is stopped")
        parser.add_argument(
            "--keep", action="store_true", help="leave a schedd alone that somebody set before"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """One service, then the row as it stands."""
        actor = shell_actor()
        name, reason, minutes = options["name"], options["reason"], options["deadline_minutes"]
        try:
            if options["action"] == "list":
                rows = known_schedds()
            elif not name:
                known = ", ".join(sorted(row.name for row in known_schedds()))
                raise InvalidInput(f"Name the schedd to {options['action']}: {known}")
            elif options["keep"] and Schedd.objects.filter(name=name, version__gt=0).exists():
                rows = list(Schedd.objects.filter(name=name))
            elif options["action"] == "drain":
                deadline = timezone.now() + timedelta(minutes=minutes) if minutes is not None else None
                rows = [drain_schedd(name=name, actor=actor, reason=reason, deadline=deadline)]
            elif options["action"] == "fence":
                rows = [fence_schedd(name=name, actor=actor, reason=reason)]
            else:
                rows = [enable_schedd(name=name, actor=actor, reason=reason)]
        except Wms2Error as error:
            raise refusal(error) from error
        for row in rows:
            ends = f" until {row.drain_deadline:%F %T}" if row.drain_deadline else ""
            silent = f", silent since {row.silent_since:%F %T}" if row.silent_since else ""
            self.stdout.write(f"{row.name}: {row.status}{ends}{silent} {row.reason}".rstrip())
