"""Startup checks of credentials: files that others could read, and settings that lack a partner."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register

from wms2_project.checks import STARTUP

OTHERS = stat.S_IRWXG | stat.S_IRWXO
KEY_MARK = b"PRIVATE KEY-----"


@register(STARTUP, Tags.security)
def check_credential_files(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Refuse files with a secret that others can open. Files this process does not see are not judged."""
    return [
        Error(
            f"{variable} names {path}, which others can read or write (mode {mode:04o}).",
            hint=f"Give it to the account that WMS2 runs as, and run chmod 0600 {path}.",
            id="wms2.E031",
        )
        for variable, path in _secret_files()
        if (mode := _mode(path)) & OTHERS
    ]


@register(STARTUP, Tags.security)
def check_token_issuer(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Require a client and a token directory for the token issuer; without them no DAG is submitted."""
    if not settings.TOKEN_ISSUER:
        return []
    return [
        Error(problem, hint=f"Correct the environment variable {variable}.", id="wms2.E032")
        for variable, problem in _issuer_problems()
    ]


def _issuer_problems() -> Iterator[tuple[str, str]]:
    for variable, url in (
        ("WMS2_TOKEN_ISSUER", settings.TOKEN_ISSUER),
        ("WMS2_TOKEN_URL", settings.TOKEN_URL),
    ):
        if url and urlsplit(url).scheme != "https":
            yield variable, f"The token issuer is at {url}, which is not https."
    if not settings.TOKEN_CLIENT_ID:
        yield "WMS2_TOKEN_CLIENT_ID", "WMS2_TOKEN_ISSUER is set, and WMS2_TOKEN_CLIENT_ID is not."
    for variable in ("WMS2_TOKEN_CLIENT_SECRET_FILE", "WMS2_CREDENTIAL_DIR"):
        path = getattr(settings, variable.removeprefix("WMS2_"))
        if not path.startswith("/"):
            yield variable, f"WMS2_TOKEN_ISSUER is set, and {variable} is not an absolute path."


def _secret_files() -> Iterator[tuple[str, str]]:
    services = settings.CMS_SERVICES
    if services["client_key"]:
        yield "WMS2_CLIENT_KEY", services["client_key"]
    elif _holds_key(services["client_cert"]):
        yield "WMS2_CLIENT_CERT", services["client_cert"]
    for variable in (
        "WMS2_JOB_PROXY", "WMS2_SERVICE_TOKEN_FILE", "WMS2_RUCIO_TOKEN_FILE", "WMS2_TOKEN_CLIENT_SECRET_FILE",
    ):  # fmt: skip
        if path := getattr(settings, variable.removeprefix("WMS2_")):
            yield variable, path


def _holds_key(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return KEY_MARK in file.read(1_000_000)
    except OSError:
        return False


def _mode(path: str) -> int:
    """Return the permissions of a file; 0 if this process does not see it."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return 0
