"""Commands of the operations catalogue: one command per operation, with an option per field of its input."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from wms2_cli.api import segment
from wms2_cli.context import Session
from wms2_cli.errors import USAGE, CliError
from wms2_cli.output import Format, clean, print_json

CATALOGUE = Path(__file__).with_name("operations.json")
REASON, DRY_RUN, YES = "reason", "dry_run", "yes"
FINAL = "final"
IDS = ("request_name", "name", "id")  # members that identify what an operation made
TYPES: dict[str, Any] = {
    "integer": int, "number": float, "flag": bool, "text": str, "pairs": list[str], "list": list[str],
    "file": Path,
}  # fmt: skip
OTHER_NAMES = {("request", "submit"): "submit-draft"}  # `submit` sends documents
Entry = dict[str, Any]


@cache
def catalogue() -> list[Entry]:
    """Return the catalogue of operations that is shipped with this client."""
    found: list[Entry] = json.loads(CATALOGUE.read_text())
    return found


def add_operations(app: typer.Typer, kind: str, wanted: Callable[[str], bool]) -> None:
    """Add a command for each operation on this kind of thing whose name is wanted."""
    for entry in catalogue():
        if entry["kind"] == kind:
            name = str(OTHER_NAMES.get((kind, entry["name"]), entry["name"]))
            if not wanted(name):
                continue
            app.command(name, help=entry["effect"])(build_command(entry))


def build_command(entry: Entry) -> Callable[..., None]:
    """Return a function with the signature of the operation, as Typer reads it."""

    def run(ctx: typer.Context, **options: Any) -> None:
        perform(ctx.obj, entry, options)

    parameters = [_parameter("ctx", typer.Context)]
    for part, metavar in entry["key"].items():
        parameters.append(_parameter(part, Annotated[str, typer.Argument(metavar=metavar)]))
    for field in entry["fields"]:
        parameters.append(_option(field))
    if entry["dry_run"]:
        help_text = "Print the effect without changing anything."
        parameters.append(
            _parameter(DRY_RUN, Annotated[bool, typer.Option("--dry-run", help=help_text)], False)
        )
    if entry["weight"] == FINAL:
        yes = typer.Option("--yes", help="Do not ask for confirmation.")
        parameters.append(_parameter(YES, Annotated[bool, yes], False))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def perform(session: Session, entry: Entry, options: dict[str, Any]) -> None:
    """Send the operation and print its result."""
    path = entry["path"].format(**{part: segment(options[part]) for part in entry["key"]})
    fields = {field["name"]: field for field in entry["fields"]}
    given = {name: options[name] for name in fields if options.get(name) not in (None, [])}
    body = {name: _value(fields[name], value) for name, value in given.items()}
    if options.get(DRY_RUN):
        print_json(session.api.call(entry["method"], path, body | {DRY_RUN: True}).body)
        return
    if entry["weight"] == FINAL and not options[YES]:
        _confirm(entry, options)
    answer = session.api.call(entry["method"], path, body)
    found = answer.body if isinstance(answer.body, dict) else {}
    subject = " ".join(str(options[part]) for part in entry["key"])
    if session.form is Format.JSON:
        print_json(answer.body)
    elif entry["reveals"]:
        sys.stdout.write(f"{clean(found.get(entry['reveals'], ''))}\n")
    elif session.form is Format.QUIET:
        made = next((found[name] for name in IDS if name in found), entry["kind"])
        sys.stdout.write(f"{clean(subject or made)}\n")
    else:
        message, about = clean(answer.message or "done"), clean(subject or entry["kind"])
        sys.stdout.write(f"{message}\n" if message.startswith(about) else f"{about}: {message}\n")


def _confirm(entry: Entry, options: dict[str, Any]) -> None:
    subject = " ".join(str(options[part]) for part in entry["key"])
    if not sys.stdin.isatty():
        raise CliError(
            f"{entry['name']} {subject} cannot be undone and needs a confirmation",
            cure="Add --yes",
            exit_code=USAGE,
        )
    sys.stderr.write(f"{entry['effect']}\n")
    if not typer.confirm(f"{entry['name']} {subject}?", err=True):
        raise CliError("nothing was changed")


def _option(field: dict[str, Any]) -> inspect.Parameter:
    flag = f"--{field['name'].replace('_', '-')}"
    names = [flag, "-m"] if field["name"] == REASON else [flag]
    if field["type"] == "flag":
        names = [f"{flag}/--no-{flag[2:]}"]
    help_text = field["help"] + (f" One of: {', '.join(field['choices'])}." if "choices" in field else "")
    kind: Any = TYPES[field["type"]]
    if field["required"]:
        return _parameter(field["name"], Annotated[kind, typer.Option(*names, help=help_text)])
    return _parameter(field["name"], Annotated[kind | None, typer.Option(*names, help=help_text)], None)


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _value(field: dict[str, Any], given: Any) -> Any:
    """Return what the API takes; several values may also be one text with spaces."""
    if field["type"] == "file":
        try:
            return Path(given).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise CliError(f"{field['name']}: {given} cannot be read: {error}", exit_code=USAGE) from error
    if field["type"] not in ("list", "pairs"):
        return given
    words = [word for text in given for word in text.split()]
    if field["type"] == "list":
        return words
    pairs = [word.partition("=") for word in words]
    if wrong := [word for word, (_, equals, _) in zip(words, pairs, strict=True) if not equals]:
        raise CliError(f"{field['name']}: {wrong[0]!r} is not NAME=VALUE", exit_code=USAGE)
    return {name: int(value) if value.isdecimal() else value for name, _, value in pairs}
