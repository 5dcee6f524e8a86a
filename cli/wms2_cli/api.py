"""Calls to the REST API. Every failure is a CliError with the problem's text and cure.

The standard library's client is used because it starts several times faster than others.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from wms2_cli.config import LOGIN, Server
from wms2_cli.errors import FAILED, UNREACHABLE, USAGE, CliError

TIMEOUT_SEC = 60.0
PAGES = 1000  # that one list may have: a server that always names a next page is not followed for ever
MESSAGE_HEADER = "WMS2-Message"


class Answer(NamedTuple):
    """Response of the server: the body, and the result of an operation as a sentence."""

    body: Any
    message: str


class Api:
    """One connection to a server, opened again when it was lost."""

    def __init__(self, server: Server, *, timeout_sec: float = TIMEOUT_SEC) -> None:
        self._server, self._parts, self._timeout_sec = server, _split(server.url), timeout_sec
        self._connection: http.client.HTTPConnection | None = None

    def get(self, path: str, **query: Any) -> Any:
        """Return the body of a GET."""
        return self.call("GET", path, query=query).body

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one call and return body and message; raises CliError for every error."""
        wanted = {key: value for key, value in (query or {}).items() if value not in (None, "", [])}
        target = f"{self._parts.path.rstrip('/')}/api/v1/{path.lstrip('/')}"
        if wanted:
            target += f"?{urlencode(wanted, doseq=True)}"
        status, text, message = self._send(method, target, body, headers or {})
        if status == 204:
            return Answer({}, message)
        try:
            answer = json.loads(text)
        except ValueError as error:
            problem = f"{self._server.url} answered {status} without JSON"
            raise CliError(problem, cure="Check the URL", exit_code=UNREACHABLE) from error
        if status >= 400:
            raise _problem(status, answer)
        return Answer(answer, message)

    def pages(self, path: str, *, limit: int, **query: Any) -> Iterator[dict[str, Any]]:
        """Yield at most `limit` rows of a list, page after page."""
        yield from self.rows(self.get(path, **query, page_size=min(limit, 200)), limit=limit)

    def rows(self, answer: dict[str, Any], *, limit: int) -> Iterator[dict[str, Any]]:
        """Yield at most `limit` rows of a page and those after it."""
        for _ in range(PAGES):
            for row in answer["results"]:
                if limit <= 0:
                    return
                limit -= 1
                yield row
            following = answer.get("next")
            if not following or limit <= 0:
                return
            parts = urlsplit(following)
            answer = self.get(f"{parts.path.partition('/api/v1/')[2]}?{parts.query}")

    def _send(
        self, method: str, target: str, body: Any, headers: Mapping[str, str]
    ) -> tuple[int, bytes, str]:
        sent = {"Accept": "application/json", **headers}
        if self._server.token:
            sent["Authorization"] = f"Bearer {self._server.token}"
        data = None
        if body is not None:
            data, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        reused = self._connection is not None
        try:
            connection = self._connect()
            connection.request(method, target, data, sent)
            answer = connection.getresponse()
            if 300 <= answer.status < 400:
                problem = f"{self._server.url} redirects to {answer.getheader('Location')}"
                raise CliError(problem, cure="Run `wms2 login` with the URL it leads to", exit_code=USAGE)
            message = unquote(answer.getheader(MESSAGE_HEADER, ""))
            return answer.status, answer.read(), message
        except (OSError, http.client.HTTPException) as error:
            self.close()
            closed = not isinstance(error, TimeoutError)  # by the server, because it was idle
            if reused and closed and method == "GET":
                return self._send(method, target, body, headers)
            raise _unreachable(self._server.url, error) from error

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            host, port = str(self._parts.hostname), self._parts.port
            if self._parts.scheme == "https":
                import ssl  # only here: it is the slowest import

                try:
                    context = ssl.create_default_context(cafile=self._server.ca_file or None)
                except OSError as error:
                    problem = f"The CA certificates {self._server.ca_file} cannot be read: {error}"
                    raise CliError(problem, cure="Give a file in PEM format", exit_code=USAGE) from error
                self._connection = http.client.HTTPSConnection(
                    host, port, timeout=self._timeout_sec, context=context
                )
            else:
                self._connection = http.client.HTTPConnection(host, port, timeout=self._timeout_sec)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        problem = f"{url!r} is not a URL such as https://wms2.example.org"
        raise CliError(problem, cure=LOGIN, exit_code=USAGE)
    return parts


def _unreachable(url: str, error: Exception) -> CliError:
    """Build the error of a call that got no response."""
    cure = "Check the URL and the network, then try again"
    if type(error).__name__ == "SSLCertVerificationError":  # comparing classes would need a slow import
        cure = "For a private CA, log in with --ca-file, or set WMS2_CA_FILE"
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return CliError(f"{url} does not answer: {reason}", cure=cure, exit_code=UNREACHABLE)


def segment(value: object) -> str:
    """Return a value as one segment of a path."""
    return quote(str(value), safe="")


def _about(name: str, text: object) -> str:
    """Return the message of a field without its name, which some messages begin with."""
    return str(text).removeprefix(f"{name}: ")


def _problem(status: int, answer: Any) -> CliError:
    """Build the error of a problem document (RFC 9457)."""
    problem = answer if isinstance(answer, dict) else {}
    message = str(problem.get("detail") or problem.get("title") or f"the server answered {status}")
    fields = problem.get("errors") or problem.get("fields") or {}
    if isinstance(fields, Mapping):
        message += "".join(f"\n  {name}: {_about(name, text)}" for name, text in fields.items())
    cure = "" if fields else str(problem.get("cure") or "")
    if status == 401:
        cure = LOGIN
    usage = status in (400, 415, 422)
    return CliError(
        message, cure=cure, exit_code=USAGE if usage else UNREACHABLE if status >= 500 else FAILED
    )
