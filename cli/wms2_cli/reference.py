"""The reference of all commands as Markdown and as a manual page, written from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import typer

FILES = """~/.config/wms2/config.toml holds one table per server, and the default:

    default = "production"
    [servers.production]
    url = "https://wms2.example.org"
    token = "wms2_…"
    ca_file = "/etc/ssl/private-ca.pem"
"""
ENVIRONMENT = {
    "WMS2_URL, WMS2_TOKEN": "The server and the token. They go before the configuration file.",
    "WMS2_CA_FILE": "CA certificates of the server of WMS2_URL.",
    "WMS2_CONFIG": "Another configuration file.",
    "NO_COLOR": "Print tables without colours.",
}
OF_TYPER = ("help", "install_completion", "show_completion")  # they depend on the shell
EXIT_CODES = {"0": "success", "1": "refused or failed", "2": "wrong use or input", "3": "server unreachable"}


class Described(NamedTuple):
    """One command: its words, arguments, text and options."""

    words: str
    arguments: str
    text: str
    options: list[tuple[str, str]]


def reference(
    man: Annotated[bool, typer.Option("--man", help="Print a manual page instead of Markdown.")] = False,
) -> None:
    """Print the reference of all commands."""
    from wms2_cli.commands import build_app

    found = list(describe(typer.main.get_command(build_app((), everything=True)), "wms2"))
    typer.echo(render_man(found) if man else render_markdown(found), nl=False)


def describe(command: Any, words: str) -> Iterator[Described]:
    """Yield a command and those below it, groups without a text of their own."""
    below = getattr(command, "commands", {})
    if not below or words == "wms2":
        options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        yield Described(
            words,
            " ".join(str(one.metavar or one.name).upper() for one in arguments),
            _flat(command.help or ""),
            [(_flags(one), _flat(one.help or "")) for one in options if one.name not in OF_TYPER],
        )
    for name in sorted(below):
        yield from describe(below[name], f"{words} {name}")


def _flags(option: Any) -> str:
    value = "" if option.is_flag else f" {option.name.upper()}"
    return ", ".join(option.opts + option.secondary_opts) + value


def _flat(text: str) -> str:
    return " ".join(text.split())


def render_markdown(found: list[Described]) -> str:
    """Return docs/cli.md."""
    lines = [
        "# Commands of `wms2`", "",
        "Written by `./wms2 cli reference`; do not edit. `wms2 COMMAND --help` prints the same.", "",
    ]  # fmt: skip
    for one in found:
        lines += [f"## `{' '.join(filter(None, (one.words, one.arguments)))}`", "", one.text, ""]
        lines += [f"- `{flags}`: {text}" if text else f"- `{flags}`" for flags, text in one.options]
        lines += [""] if one.options else []
    lines += ["## Exit codes", "", *(f"- {code}: {text}" for code, text in EXIT_CODES.items()), ""]
    lines += ["## Environment", "", *(f"- `{name}`: {text}" for name, text in ENVIRONMENT.items()), ""]
    return "\n".join([*lines, "## Files", "", FILES])


def render_man(found: list[Described]) -> str:
    """Return the manual page wms2(1)."""
    lines = [
        ".TH WMS2 1", ".SH NAME", r"wms2 \- submit, follow and operate WMS2 requests",
        ".SH SYNOPSIS", r".B wms2", "[OPTIONS] COMMAND [ARGUMENTS]", ".SH DESCRIPTION", _roff(found[0].text),
        ".SH OPTIONS", *_man_options(found[0].options), ".SH COMMANDS",
    ]  # fmt: skip
    for one in found[1:]:
        lines += [".TP", rf"\fB{_roff(one.words)}\fR {_roff(one.arguments)}", _roff(one.text)]
        lines += [".RS", *_man_options(one.options), ".RE"] if one.options else []
    for title, table in (("EXIT STATUS", EXIT_CODES), ("ENVIRONMENT", ENVIRONMENT)):
        lines += [f".SH {title}"]
        for name, text in table.items():
            lines += [".TP", f".B {_roff(name)}", _roff(text)]
    return "\n".join([*lines, ".SH FILES", ".nf", _roff(FILES).rstrip(), ".fi", ""])


def _man_options(options: list[tuple[str, str]]) -> list[str]:
    return [line for flags, text in options for line in (".TP", rf"\fB{_roff(flags)}\fR", _roff(text))]


def _roff(text: str) -> str:
    r"""Return text without roff's own characters: a backslash, a dash that is not a hyphen, a leading dot."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)
