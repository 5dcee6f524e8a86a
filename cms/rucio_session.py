"""A Rucio client without rucio.cfg or files on disk, and Rucio's errors as errors of WMS2.

rucio-clients provides authentication, retries and streaming. It would keep its token in a file shared by
everything that runs under one account name, rewrite sys.argv and report any failed login as bad
credentials, which does not suit a long-lived service that talks to several servers.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import requests
from rucio.client import Client
from rucio.common import exception as rucio_errors

from cms.http import describe, read_token_file
from wms2_project.errors import NotFound, ServiceRejected, ServiceUnavailable
from wms2_project.observation.tracing import SpanKind, note, span

log = logging.getLogger(__name__)
_argv_lock = threading.Lock()
RETRIES = 1  # of a call without an answer; with the timeouts it must stay below a task's time limit

_ABSENT = (
    rucio_errors.DataIdentifierNotFound,
    rucio_errors.RuleNotFound,
    rucio_errors.RSENotFound,
    rucio_errors.ReplicaNotFound,
)
_PASSING = (
    rucio_errors.DatabaseException,
    rucio_errors.ReplicationRuleCreationTemporaryFailed,
    rucio_errors.ResourceTemporaryUnavailable,
    rucio_errors.ServerConnectionException,
    rucio_errors.ServiceUnavailable,
)
_DENIED = (
    rucio_errors.AccessDenied,
    rucio_errors.CannotAuthenticate,
    rucio_errors.MissingClientParameter,  # a missing file
)


class RucioAuth(StrEnum):
    """Login method of Rucio."""

    USERPASS = "userpass"
    X509 = "x509"  # a certificate and its key
    X509_PROXY = "x509_proxy"
    TOKEN = "token"  # noqa: S105 — a JWT of an issuer that Rucio trusts, renewed by another service


@dataclass(frozen=True, slots=True)
class RucioConfig:
    """Address and account of Rucio. `scope` is the scope of all CMS names.

    Files are read again at each login, so that a renewed certificate, proxy or token is used without a
    restart. `client_cert` is the certificate of X509, with its key in `client_key` or in the same file, or
    the proxy of X509_PROXY.
    """

    url: str
    auth_url: str
    account: str
    username: str = ""
    password: str = field(default="", repr=False)
    auth: RucioAuth = RucioAuth.USERPASS
    client_cert: str = ""
    client_key: str = ""
    token_file: str = ""
    scope: str = "cms"
    connect_timeout_sec: float = 5.0
    read_timeout_sec: float = 60.0
    ca_path: str = ""
    guard: Callable[[str], AbstractContextManager[object]] = nullcontext


class MemoryTokenClient(Client):  # type: ignore[misc]  # rucio-clients ships no types
    """Rucio's client with the token in memory, which distinguishes server failures from refusals."""

    def __init__(self, config: RucioConfig) -> None:
        self._guard = config.guard
        self._token_file = config.token_file
        super().__init__(
            rucio_host=config.url.rstrip("/"),
            auth_host=config.auth_url.rstrip("/"),
            account=config.account,
            ca_cert=config.ca_path or None,
            auth_type="oidc" if config.auth is RucioAuth.TOKEN else config.auth.value,
            creds=_credentials(config),
            timeout=(config.connect_timeout_sec, config.read_timeout_sec),
            user_agent="wms2",
            vo="def",
            logger=log,
        )
        self.request_retries = RETRIES

    @span("Rucio call", kind=SpanKind.CLIENT)
    def _send_request(self, url: str, method: Any, *args: Any, **kwargs: Any) -> Any:
        note(f"Rucio: {urlsplit(url).path}", service="Rucio")
        with self._guard(f"{method} {self._resource(url)}"):
            response = super()._send_request(url, method, *args, **kwargs)
            status = response.status_code
            if status == 429 or (status >= 500 and not _names_its_reason(response)):
                raise ServiceUnavailable(f"Rucio: {urlsplit(url).path} answered {status}")
        return response

    def _resource(self, url: str) -> str:
        """Return the kind of resource a URL is about, such as `rules`."""
        base = next((one for one in (self.host, self.auth_host) if url.startswith(one)), "")
        return url.removeprefix(base).strip("/").partition("/")[0]

    # These methods are private to Rucio, hence their mangled names. The first two keep the token in a file.

    def _BaseClient__read_token(self) -> bool:
        return False

    def _BaseClient__write_token(self) -> None:
        return None

    def _BaseClient__get_token_oidc(self) -> bool:
        """Read the token anew, at login and after a 401; rucio-clients would start a login in a browser."""
        self.auth_token = read_token_file(self._token_file)
        return True


def _credentials(config: RucioConfig) -> dict[str, str]:
    """Return what rucio-clients wants for this way of logging in."""
    match config.auth:
        case RucioAuth.USERPASS:
            return {"username": config.username, "password": config.password}
        case RucioAuth.X509:
            key = config.client_key or config.client_cert
            return {"client_cert": config.client_cert, "client_key": key}
        case RucioAuth.X509_PROXY:
            return {"client_proxy": config.client_cert}
        case RucioAuth.TOKEN:
            return {}


def connect(config: RucioConfig) -> MemoryTokenClient:
    """Log in. Nothing is read from configuration files or the environment."""
    # Rucio shortens sys.argv[0] in place and reports the command line to the server.
    with _argv_lock:
        argv, sys.argv = sys.argv, ["wms2"]
        try:
            return MemoryTokenClient(config)
        finally:
            sys.argv = argv


@contextmanager
def translated_errors(operation: str) -> Iterator[None]:
    """Raise errors of Rucio inside the block as errors of WMS2; `operation` completes "Rucio could not …"."""
    try:
        yield
    except _ABSENT as error:
        raise NotFound(f"Rucio could not {operation}: {describe(error)}") from error
    except _DENIED as error:
        raise ServiceRejected(
            f"Rucio denied permission to {operation}: {describe(error)}",
            cure="Check the Rucio account, password, certificate or token (WMS2_RUCIO_AUTH), and its rights",
        ) from error
    except _PASSING as error:
        raise ServiceUnavailable(f"Rucio could not {operation}: {describe(error)}") from error
    except rucio_errors.RucioException as error:
        raise ServiceRejected(f"Rucio refused to {operation}: {describe(error)}") from error
    except (OSError, ValueError) as error:
        # OSError: requests' errors, and a certificate that cannot be loaded. ValueError: a stream cut short.
        raise ServiceUnavailable(f"Rucio did not answer a call to {operation}: {describe(error)}") from error


def _names_its_reason(response: requests.Response) -> bool:
    """Return whether a 500 names a specific Rucio error and is a refusal, not a failure."""
    name = response.headers.get("ExceptionClass", "")
    return name != "RucioException" and hasattr(rucio_errors, name)
