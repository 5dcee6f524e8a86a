"""`manage.py alert acknowledge ID --reason …`: note who has taken an alert on."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from requests_app.alerts import acknowledge_alert
from wms2_project.errors import Wms2Error
from wms2_project.shell import refusal, shell_actor


class Command(BaseCommand):
    help = "Acknowledge an alert: it stays open, and nobody else is notified of it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The action, the alert, the reason."""
        parser.add_argument("action", choices=["acknowledge"])
        parser.add_argument("id", type=int)
        parser.add_argument("--reason", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        """One service, then what it did."""
        try:
            alert = acknowledge_alert(alert_id=options["id"], actor=shell_actor(), reason=options["reason"])
        except Wms2Error as error:
            raise refusal(error) from error
        self.stdout.write(f"alert {alert.pk} is acknowledged by {alert.acknowledged_by}")
