"""All commands as a Typer application: global options, requests, and one group per kind of thing."""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib import import_module
from typing import Annotated

import typer

from wms2_cli import chains, lists, login, requests, watch
from wms2_cli.context import Session
from wms2_cli.errors import USAGE, CliError
from wms2_cli.operations import add_operations
from wms2_cli.output import choose_format
from wms2_cli.reference import reference

GROUPS = {
    "dag": "DAGs: list, hold, release, remove, rescue.",
    "site": "Sites: list, drain, enable, ban and so on.",
    "schedd": "Schedds: list, drain, enable, fence.",
    "admission": "The admission queue and its limits.",
    "alert": "Alerts: list, acknowledge.",
    "quota": "Quotas of requestors and groups.",
    "quarantine": "Replicas that were proved bad.",
    "template": "Templates of chains: list, load, activate, archive, start and so on.",
    "chain": "Chains: list, show, why, cancel, and retry, skip, approve or reject a step.",
    "announcement": "Announced datasets: list, replay, drop.",
    "dataset": "Datasets: announce.",
    "token": "API tokens.",
    "identity": "Certificates and token subjects of accounts.",
}


def build_app(words: Collection[str], *, everything: bool = False) -> typer.Typer:
    """Return the application.

    Only commands that occur in the words are built, because building all is slow.
    """

    def wanted(name: str) -> bool:
        return everything or name in words

    app = typer.Typer(
        no_args_is_help=True, add_completion=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    app.callback()(start)
    requests.add_request_commands(app)
    for command in (watch.watch, top, login.login, login.whoami, login.status, reference):
        app.command()(command)
    add_operations(app, "request", wanted)
    outputs = typer.Typer(no_args_is_help=True, help="Output datasets of a request.")
    outputs.command("list")(requests.list_outputs)
    app.add_typer(outputs, name="outputs")
    for kind, help_text in GROUPS.items():
        group = typer.Typer(no_args_is_help=True, help=help_text)
        if wanted(kind):
            lists.add_list(group, kind)
            if kind == "chain":
                chains.add_reads(group)
            add_operations(group, kind, lambda name: True)
        app.add_typer(group, name=kind)
    return app


def start(
    ctx: typer.Context,
    server: Annotated[str, typer.Option("--server", help="A server of the configuration file.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the body of the API.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print names or ids only.")] = False,
) -> None:
    """Use WMS2 from the command line.

    The server and token come from WMS2_URL and WMS2_TOKEN, or from `wms2 login`.
    Exit codes: 0 success, 1 refused or failed, 2 wrong use or input, 3 server unreachable.
    """
    ctx.obj = Session(server, choose_format(as_json=as_json, quiet=quiet))


def top(
    ctx: typer.Context,
    interval: Annotated[float, typer.Option("--interval", min=0.5, help="Seconds between updates.")] = 3.0,
) -> None:
    """Show all open requests full screen, with keys for why, stop and release."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CliError("top needs a terminal", cure="Use `wms2 list` or `wms2 watch`", exit_code=USAGE)
    try:
        screen = import_module("wms2_cli.top")
    except ModuleNotFoundError as error:
        raise CliError(f"{error.name} is not installed", cure="Install wms2-client[top]") from error
    screen.run(ctx.obj, interval)
