"""`manage.py retention`: remove rows that are past their time; `--dry-run` counts them."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from requests_app.services.retention import POLICIES, apply_retention, plan_retention


class Command(BaseCommand):
    help = (
        "Fold the input files of requests that ended long ago, and remove old DAG events and audit"
        " rows, as WMS2_KEEP_FILES_DAYS, WMS2_KEEP_EVENTS_DAYS and WMS2_KEEP_AUDIT_DAYS say."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count the rows")
        parser.add_argument(
            "--only", choices=[policy.name for policy in POLICIES], action="append", default=[],
            help="apply this policy only; may be repeated",
        )  # fmt: skip
        parser.add_argument("--seconds", type=float, default=3600.0, help="limit per policy (3600)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print one line per policy; fail if rows could not be removed."""
        now, only = timezone.now(), options["only"]
        if options["dry_run"]:
            for one in plan_retention(now=now, only=only):
                self.stdout.write(f"{one.name}: {one.rows} rows from before {one.limit:%F} would be removed")
            return
        outcomes = apply_retention(now=now, seconds=options["seconds"], only=only)
        if not outcomes:
            raise CommandError("another process applies the retention now. Try again later")
        for one in outcomes:
            self.stdout.write(f"{one.name}: {one.rows} rows from before {one.limit:%F} were removed")
        if failed := [f"{one.name}: {one.message}" for one in outcomes if one.message]:
            raise CommandError("\n".join(failed))
