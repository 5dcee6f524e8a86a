"""Read announcements of datasets from message brokers, until a signal."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from chains_app.intake.process import Intake, configured_readers, stop_on_signals


class Command(BaseCommand):
    """Run the intake."""

    help = (
        "Read announcements of datasets from the brokers of WMS2_INTAKE_AMQP_URL and WMS2_INTAKE_STOMP_URL."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        readers = configured_readers()
        if not readers:
            raise CommandError("no broker is configured: set WMS2_INTAKE_AMQP_URL or WMS2_INTAKE_STOMP_URL")
        intake = Intake(readers)
        stop_on_signals(intake)
        intake.run()
