"""`manage.py template OPERATION …`, and `check` and `try` for documents that are not stored."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

import yaml
from django.conf import settings
from django.core.management.base import CommandError

from chains_app.cwl.trying import render_problem, try_workflow
from chains_app.operations import TEMPLATE_OPERATIONS
from chains_app.services.templates import check_template
from wms2_project.command_base import path_of
from wms2_project.operations.command import OperationCommand


class Command(OperationCommand):
    help = "Load, activate, archive, clone, change or delete a template; check or try a document."
    operations = TEMPLATE_OPERATIONS

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add `check` and `try` beside the operations."""
        super().add_arguments(parser)
        commands = next(one for one in parser._actions if one.dest == "operation")
        add = commands.add_parser  # type: ignore[attr-defined]
        check = add("check", help="Print the problems of a document.")
        check.add_argument("file", metavar="FILE")
        attempt = add("try", help="Print the calls that a workflow would make, and start nothing.")
        attempt.add_argument("file", metavar="FILE")
        attempt.add_argument("--inputs", metavar="FILE", help="values of the workflow's inputs, JSON or YAML")
        attempt.add_argument(
            "--results", metavar="FILE", help="port values by step, a list per scattered step"
        )
        attempt.add_argument(
            "--wiring-only", action="store_true", help="accept any CWL workflow and ignore its tools"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run an operation, or print the result of a check or try as JSON."""
        if options["operation"] not in ("check", "try"):
            super().handle(*args, **options)
            return
        wiring_only = bool(options.get("wiring_only"))
        reading = check_template(_text(options["file"]), wiring_only=wiring_only)
        problems = [render_problem(one) for one in reading.problems]
        if options["operation"] == "check":
            found: dict[str, Any] = {"problems": problems}
        elif reading.workflow is None:
            found = {"calls": [], "skipped": [], "outputs": {}, "problems": problems}
        else:
            found = try_workflow(
                reading.workflow,
                inputs=_values(options["inputs"]),
                results=_values(options["results"]),
                wiring_only=wiring_only,
                max_calls=settings.CHAIN_MAX_STEPS,
            )
        self.stdout.write(json.dumps(found, indent=1))
        if options["operation"] == "check" and problems:
            raise CommandError("the document has problems", returncode=1)


def _text(name: str) -> str:
    path = path_of(name)
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error


def _values(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        found = yaml.safe_load(_text(path))
    except yaml.YAMLError as error:
        raise CommandError(f"{path} is neither JSON nor YAML: {error}") from error
    if not isinstance(found, dict):
        raise CommandError(f"{path} must be an object")
    return found
