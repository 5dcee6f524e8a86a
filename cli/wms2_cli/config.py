"""Servers and tokens: from options, the environment, or the configuration file of the user.

The file holds one table per server:

    default = "production"
    [servers.production]
    url = "https://wms2.example.org"
    token = "wms2_…"
    ca_file = "/etc/ssl/private-ca.pem"   # optional
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from wms2_cli.errors import USAGE, CliError

if TYPE_CHECKING:
    from pathlib import Path

LOGIN = "Run `wms2 login URL`, or set WMS2_URL and WMS2_TOKEN"


class Server(NamedTuple):
    """Address of the API and credentials. Not a dataclass, whose import would take too long."""

    url: str
    token: str
    ca_file: str = ""


def config_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the configuration file."""
    from pathlib import Path  # only here: a server given by the environment needs no file

    if named := environment.get("WMS2_CONFIG"):
        return Path(named)
    base = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "/")) / ".config"
    return Path(base) / "wms2" / "config.toml"


def choose_server(name: str = "", environment: Mapping[str, str] = os.environ) -> Server:
    """Return the named server; without a name that of the environment, else the default of the file."""
    if not name and environment.get("WMS2_URL"):
        ca_file = environment.get("WMS2_CA_FILE", "")
        return Server(environment["WMS2_URL"].rstrip("/"), environment.get("WMS2_TOKEN", ""), ca_file)
    path = config_path(environment)
    found = read_config(path)
    servers = found.get("servers", {})
    name = name or str(found.get("default", ""))
    if not name and len(servers) == 1:
        name = next(iter(servers))
    if name not in servers:
        known = ", ".join(sorted(servers)) or "none"
        problem = f"{path} has no server {name!r}; it has: {known}" if name else "No server is configured"
        raise CliError(problem, cure=LOGIN, exit_code=USAGE)
    entry = servers[name]
    return Server(
        str(entry.get("url", "")).rstrip("/"), str(entry.get("token", "")), entry.get("ca_file", "")
    )


def read_config(path: Path) -> dict[str, Any]:
    """Return the content of the configuration file; an absent file is empty."""
    import tomllib

    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CliError(f"{path} cannot be read: {error}", cure="Fix or remove it", exit_code=USAGE) from error


def save_server(path: Path, name: str, server: Server) -> None:
    """Add or replace a server in the file, readable by its owner only, and make it the default."""
    content = read_config(path)
    servers = content.get("servers", {})
    servers[name] = {"url": server.url, "token": server.token}
    if server.ca_file:
        servers[name]["ca_file"] = server.ca_file
    lines = [f"default = {json.dumps(name)}"]
    for key, entry in sorted(servers.items()):
        lines += ["", f"[servers.{json.dumps(key)}]", *(f"{k} = {json.dumps(v)}" for k, v in entry.items())]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
        handle.write("\n".join(lines) + "\n")
    partial.replace(path)
