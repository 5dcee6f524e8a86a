"""Frequent commands without Typer, whose import takes several times longer than all the rest.

Only plain calls are parsed here: known options, each followed by its value. Everything else, such as help
and wrong use, is left to Typer. A test compares the options with those that Typer has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wms2_cli import reads
from wms2_cli.config import LOGIN
from wms2_cli.context import Session
from wms2_cli.errors import USAGE, CliError
from wms2_cli.output import choose_format

Options = dict[str, tuple[str, Callable[[str], Any]]]  # flag → name and type; a list collects
_NAMED: Options = {}
COMMANDS: dict[str, tuple[Callable[..., None], Options]] = {
    "list": (
        reads.list_requests,
        {
            "--status": ("status", list),
            "-s": ("status", list),
            "--name": ("name", str),
            "--campaign": ("campaign", str),
            "--requestor": ("requestor", str),
            "--limit": ("limit", int),
            "-n": ("limit", int),
        },
    ),
    "show": (reads.show, _NAMED),
    "why": (reads.why, _NAMED),
    "errors": (reads.errors, _NAMED),
}
GLOBAL_FLAGS = {"--json": "as_json", "--quiet": "quiet", "-q": "quiet"}


def global_first(words: Sequence[str]) -> list[str]:
    """Return the words with the global options before the command, where Typer expects them."""
    before: list[str] = []
    after: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            after += [word, *rest]
        elif word in GLOBAL_FLAGS or word.startswith("--server="):
            before.append(word)
        elif word == "--server":
            value = next(rest, None)
            if value is None:
                raise CliError("--server needs the name of a server", cure=LOGIN, exit_code=USAGE)
            before += [word, value]
        else:
            after.append(word)
    return before + after


def run_quickly(words: Sequence[str]) -> bool:
    """Run the command if it is a plain call of a frequent one. Return False if Typer must parse it."""
    rest, form, server = list(words), {"as_json": False, "quiet": False}, ""
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word in GLOBAL_FLAGS:
            form[GLOBAL_FLAGS[word]] = True
        elif word == "--server" and rest:
            server = rest.pop(0)
        else:
            return False
    if not rest or rest[0] not in COMMANDS:
        return False
    run, options = COMMANDS[rest[0]]
    values = parse_plainly(rest[1:], options)
    if values is None:
        return False
    run(Session(server, choose_format(**form)), **values)
    return True


def parse_plainly(words: Sequence[str], options: Options) -> dict[str, Any] | None:
    """Return the values of the options, or of REQUEST if there are no options; None if Typer must parse."""
    if not options:
        return {"name": words[0]} if len(words) == 1 and not words[0].startswith("-") else None
    values: dict[str, Any] = {}
    for flag, value in zip(words[::2], words[1::2], strict=False):
        if flag not in options or value.startswith("-"):
            return None
        name, kind = options[flag]
        if kind is list:
            values.setdefault(name, []).append(value)
        elif kind is int:
            if not value.isdecimal() or not int(value):
                return None
            values[name] = int(value)
        else:
            values[name] = value
    return values if len(words) % 2 == 0 else None
