"""`wms2 login`, `wms2 whoami` and `wms2 status`."""

from __future__ import annotations

import os
import sys
from typing import Annotated
from urllib.parse import urlsplit

import typer

from wms2_cli.api import Api
from wms2_cli.config import Server, config_path, save_server
from wms2_cli.context import Session
from wms2_cli.errors import USAGE, CliError
from wms2_cli.output import clean, print_facts


def login(
    url: Annotated[str, typer.Argument(help="The server, such as https://wms2.example.org.")],
    name: Annotated[str, typer.Option("--name", help="Name of the server in the configuration file.")] = "",
    ca_file: Annotated[str, typer.Option("--ca-file", help="CA certificates of a private server.")] = "",
) -> None:
    """Store a server with its API token. The token is read from the terminal or from standard input."""
    Api(Server(url, ""))  # refuses what is not a URL before the token is typed
    if sys.stdin.isatty():
        token = typer.prompt("API token", hide_input=True, err=True)
    else:
        token = sys.stdin.readline()
    server = Server(url.rstrip("/"), token.strip(), ca_file)
    if not server.token:
        cure = "Create one in the console, under API tokens"
        raise CliError("the token is empty", cure=cure, exit_code=USAGE)
    account = Api(server).get("me")
    name = name or urlsplit(url).hostname or "default"
    save_server(config_path(), name, server)
    who = f"{clean(account.get('username'))} ({clean(account.get('role'))})"
    sys.stdout.write(f"logged in as {who}; stored as {name} in {config_path()}\n")
    if os.environ.get("WMS2_URL"):
        sys.stderr.write("wms2: WMS2_URL is set and goes before this file; unset it to use the server\n")


def whoami(ctx: typer.Context) -> None:
    """Print the account and role of the token."""
    session: Session = ctx.obj
    body = session.api.get("me")
    facts = {name: value for name, value in body.items() if not isinstance(value, dict | list)}
    print_facts(facts, session.form, body)


def status(ctx: typer.Context) -> None:
    """Print the state of the server: requests by status, services, workers and queues."""
    session: Session = ctx.obj
    body = session.api.get("status")
    facts: dict[str, object] = {}
    for name, value in body.items():
        if isinstance(value, dict):
            facts |= {f"{name} {key}": one for key, one in value.items() if not isinstance(one, dict | list)}
        elif not isinstance(value, list):
            facts[name] = value
    print_facts(facts, session.form, body)
