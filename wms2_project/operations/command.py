"""Management commands of operations: `manage.py KIND OPERATION KEY --reason … [options]`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

from django.core.management.base import BaseCommand
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from wms2_project.access.roles import Role
from wms2_project.api.errors import field_messages
from wms2_project.api.views import DRY_RUN, parsed
from wms2_project.command_base import path_of, refusal, shell_actor
from wms2_project.errors import InvalidInput, Wms2Error
from wms2_project.operations import Caller, Operation, make_call
from wms2_project.operations.forms import FILE, ONLY_JSON, parse_text

KEY = "key."  # before the name of a part of the key
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
            for part, metavar in zip(one.target.parts, one.target.metavars, strict=True):
                sub.add_argument(f"{KEY}{part}", metavar=metavar, type=one.target.key)
            for name, field in one.input().fields.items():
                if not field.style.get(ONLY_JSON):
                    _add_option(sub, name, field)
            self.add_options(sub)

    def add_options(self, parser: ArgumentParser) -> None:
        """Add options of a command's own to each of its operations."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the operation and print what it did."""
        operation = next(one for one in self.operations if one.name == options["operation"])
        key = [options[f"{KEY}{part}"] for part in operation.target.parts]
        try:
            self.stdout.write(run_operation(operation, *key, options=options))
        except Wms2Error as error:
            raise refusal(error) from error


def run_operation(operation: Operation, *key: Any, options: Mapping[str, Any]) -> str:
    """Validate the options, run the operation and return its message, its preview, or what it reveals."""
    fields: dict[str, Any] = dict(operation.input().fields)
    given = {name: _typed(fields[name], options[name]) for name in fields if options.get(name) is not None}
    caller = Caller(username=shell_actor().partition(":")[2], role=Role.ADMIN)
    try:
        body = parsed(operation.input, given)
    except ValidationError as error:
        raise InvalidInput("nothing was changed", fields=field_messages(error.detail)) from error
    call, dry_run = make_call(operation.target.row(*key), caller, body)
    if dry_run and operation.preview is not None:
        return _lines(operation.preview(call))
    done = operation.run(call)
    return str(done.more[operation.reveals]) if operation.reveals else f"{done.row}: {done.message}"


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
    if field.style.get(FILE):
        options |= {"metavar": "FILE", "type": _readable}
    if name == DRY_RUN:
        options["help"] = "print the effect without changing anything"
    parser.add_argument(f"--{name.replace('_', '-')}", **options)


def _readable(name: str) -> Path:
    path = path_of(name)
    if not path.is_file():
        raise ArgumentTypeError(f"there is no file {path}")
    return path


def _typed(field: Any, given: Any) -> Any:
    if field.style.get(FILE):
        return path_of(given).read_text()
    if isinstance(given, list):
        return parse_text(field, " ".join(given))
    if given == NULL and field.allow_null:
        return None
    return parse_text(field, given) if isinstance(given, str) else given


def _lines(preview: Any) -> str:
    """Return a preview with one member per line."""
    members = asdict(preview) if is_dataclass(preview) and not isinstance(preview, type) else dict(preview)
    return "\n".join(f"{name}: {json.dumps(value, default=str)}" for name, value in members.items())
