"""Management commands of operations: `manage.py KIND OPERATION KEY --reason … [options]`."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict, is_dataclass
from typing import Any, ClassVar

from django.core.management.base import BaseCommand
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from wms2_project.access.roles import Role
from wms2_project.api.errors import field_messages
from wms2_project.api.views import parsed
from wms2_project.command_base import refusal, shell_actor
from wms2_project.errors import InvalidInput, Wms2Error
from wms2_project.operations import DRY_RUN, Caller, Operation, make_call
from wms2_project.operations.forms import ONLY_JSON, parse_text

KEY = "key"
NULL = "null"


class OperationCommand(BaseCommand):
    """Offers the operations of one target as subcommands."""

    operations: ClassVar[tuple[Operation, ...]] = ()
    others: ClassVar[tuple[str, ...]] = ()  # subcommands without a target that a subclass handles

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add one subcommand per operation, with an option for each field of its input."""
        commands = parser.add_subparsers(dest="operation", required=True, metavar="OPERATION")
        for name in self.others:
            commands.add_parser(name)
        for one in self.operations:
            sub = commands.add_parser(one.name, help=one.effect, description=one.effect)
            if "<" in one.target.route:
                sub.add_argument(KEY, metavar=one.target.kind.upper(), type=one.target.key)
            for name, field in one.input().fields.items():
                if not field.style.get(ONLY_JSON):
                    _add_option(sub, name, field)
            self.add_options(sub)

    def add_options(self, parser: ArgumentParser) -> None:
        """Add options of a command's own to each of its operations."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the operation and print what it did."""
        operation = next(one for one in self.operations if one.name == options["operation"])
        try:
            self.stdout.write(run_operation(operation, options.get(KEY), options))
        except Wms2Error as error:
            raise refusal(error) from error
        except ValidationError as error:
            wrong = InvalidInput("nothing was changed", fields=field_messages(error.detail))
            raise refusal(wrong) from error


def run_operation(operation: Operation, key: Any, options: dict[str, Any]) -> str:
    """Validate the options, run the operation and return its message or preview."""
    fields: dict[str, Any] = dict(operation.input().fields)
    given = {name: _typed(fields[name], options[name]) for name in fields if options.get(name) is not None}
    caller = Caller(username=shell_actor().partition(":")[2], role=Role.ADMIN)
    call, dry_run = make_call(operation.target.find(key), caller, parsed(operation.input, given))
    if dry_run and operation.preview is not None:
        return _lines(operation.preview(call))
    done = operation.run(call)
    return f"{done.row}: {done.message}"


def _add_option(parser: ArgumentParser, name: str, field: Any) -> None:
    options: dict[str, Any] = {"dest": name, "required": field.required, "help": field.help_text or None}
    if isinstance(field, serializers.BooleanField):
        options |= {"action": "store_const", "const": True}
    elif isinstance(field, serializers.ListField | serializers.DictField):
        options |= {"nargs": "*"}
    elif isinstance(field, serializers.ChoiceField):
        options |= {"choices": list(field.choices)}
    if field.allow_null and not field.required:
        options["help"] = f"{options['help'] or ''} `{NULL}` removes the present value.".strip()
    if name == DRY_RUN:
        options["help"] = "print the effect without changing anything"
    parser.add_argument(f"--{name.replace('_', '-')}", **options)


def _typed(field: Any, given: Any) -> Any:
    if isinstance(given, list):
        return parse_text(field, " ".join(given))
    if given == NULL and field.allow_null:
        return None
    return parse_text(field, given) if isinstance(given, str) else given


def _lines(preview: Any) -> str:
    """Return a preview with one member per line."""
    members = asdict(preview) if is_dataclass(preview) and not isinstance(preview, type) else dict(preview)
    return "\n".join(f"{name}: {json.dumps(value, default=str)}" for name, value in members.items())
