"""`manage.py plan`: preview the plan of a request document."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone

from dags_app.planning.preview import PlanDescription
from requests_app.selectors.preview import preview_request
from wms2_project.command_base import path_of, refusal
from wms2_project.errors import Wms2Error
from wms2_project.words import counted

STANDARD_INPUT = "-"


class Command(BaseCommand):
    help = "Preview the jobs and merge groups of a request document. Nothing is stored."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--request", required=True, help="request document (JSON file); - reads standard input"
        )
        parser.add_argument("--files", help="input files (JSON list), used instead of DBS and Rucio")
        parser.add_argument("--json", action="store_true", help="print the whole plan as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        document = _read(options["request"])
        files = _read(options["files"]) if options["files"] else None
        try:
            body = preview_request(document=document, files=files, now=timezone.now()).body
        except Wms2Error as error:
            raise refusal(error) from error
        whole = json.dumps(asdict(body), indent=1, cls=DjangoJSONEncoder) if options["json"] else ""
        self.stdout.write(whole or _table(body))


def _read(name: str) -> Any:
    path = path_of(name)
    try:
        return json.loads(sys.stdin.read() if name == STANDARD_INPUT else path.read_text())
    except OSError as error:  # run as root, the file is read by the owner of the stack
        cure = f"pass {STANDARD_INPUT} and send the file on standard input"
        raise CommandError(f"{path} cannot be read: {error}; {cure}") from error
    except ValueError as error:
        raise CommandError(f"{name} is not JSON: {error}") from error


def _table(body: PlanDescription) -> str:
    lines = [f"{body.request_name}: {body.algorithm}"]
    lines += [f"  {key:22} {value}" for key, value in asdict(body.totals).items()]
    for group in body.groups:
        where, jobs = ", ".join(group.sites), counted(len(group.jobs), "job")
        lines.append(f"  {group.name}: {jobs}, {counted(group.events, 'event')}, at {where}")
    if body.groups_not_shown:
        lines.append(f"  and {counted(body.groups_not_shown, 'group')} more")
    if body.more_rounds:
        lines.append("  the remaining work is planned in later rounds")
    return "\n".join(lines)
