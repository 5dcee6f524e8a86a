"""HTTP calls to the CMS services: with timeouts, retries of safe methods, and typed errors.

No answer, 5xx and 429 become ServiceUnavailable, 404 NotFound, other refusals HttpRefusal with the
service's message. Redirects are not followed: the CMS frontends redirect unknown callers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.util.retry import Retry

from wms2_project.errors import NotFound, ServiceRejected, ServiceUnavailable
from wms2_project.observation.tracing import SpanKind, note, span

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
RETRIED_STATUSES = (429, 500, 502, 503, 504)
MAX_MESSAGE = 500
CHUNK_BYTES = 1 << 16
Params = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Timeouts, retries and credentials.

    (retries + 1) * read timeout + waits has to stay below a task's time limit. Every call is made inside
    a `guard`, which is given the name of the operation, may refuse it and sees how it ended. A certificate
    and its key may be in one file. `token_file` holds a bearer token; it is read at each call.
    """

    connect_timeout_sec: float = 5.0
    read_timeout_sec: float = 45.0
    retries: int = 2
    backoff_sec: float = 0.5
    max_wait_sec: int = 10
    client_cert: str = ""
    client_key: str = ""
    token_file: str = ""
    ca_path: str = ""
    guard: Callable[[str], AbstractContextManager[object]] = nullcontext


class HttpRefusal(ServiceRejected):
    """A refusal with the service's reply, for callers that know its error codes."""

    def __init__(self, message: str, *, status: int, reply: Any, cure: str = "") -> None:
        super().__init__(message, cure=cure)
        self.status = status
        self.reply = reply


class BearerTokenFile(AuthBase):
    """Sends the bearer token of a file, by https only. Raises ServiceRejected if there is none to send."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if urlsplit(request.url or "").scheme != "https":
            raise ServiceRejected(
                "a bearer token is sent by https only", cure="Set the service's address to https://…"
            )
        request.headers["Authorization"] = f"Bearer {read_token_file(self._path)}"
        return request


def read_token_file(path: str) -> str:
    """Return the bearer token in the file. Raises ServiceRejected if it cannot be read or is not one line."""
    cure = "Write a valid token to the file, mode 0400 or 0600"
    try:
        token = Path(path).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ServiceRejected(f"the token in {path} cannot be read: {describe(error)}", cure=cure) from None
    if not token.isprintable() or not token or " " in token:
        raise ServiceRejected(f"{path} does not hold one token", cure=cure)
    return token


class TooLarge(ServiceRejected):
    """The answer exceeds the caller's limit."""


def build_session(options: HttpOptions) -> requests.Session:
    """Return a session that retries safe methods only; others may have taken effect."""
    retry = Retry(
        total=options.retries,
        allowed_methods=SAFE_METHODS,
        status_forcelist=RETRIED_STATUSES,
        backoff_factor=options.backoff_sec,
        backoff_max=options.max_wait_sec,
        retry_after_max=options.max_wait_sec,
        raise_on_status=False,
    )
    session = requests.Session()
    session.mount("http://", HTTPAdapter(max_retries=retry))
    session.mount("https://", HTTPAdapter(max_retries=retry))
    session.headers["Accept"] = "application/json"
    session.headers["User-Agent"] = "wms2"
    if options.client_cert:
        cert, key = options.client_cert, options.client_key
        session.cert = (cert, key) if key else cert
    if options.token_file:
        session.auth = BearerTokenFile(options.token_file)
    return session


class JsonService:
    """A service that returns JSON below one base URL."""

    def __init__(self, *, service: str, base_url: str, options: HttpOptions) -> None:
        self.service = service
        self._base_url = base_url.rstrip("/")
        self._timeout = (options.connect_timeout_sec, options.read_timeout_sec)
        self._session = build_session(options)
        self._ca_path = options.ca_path or None  # given to each call: REQUESTS_CA_BUNDLE beats a session's
        self._guard = options.guard

    def get(self, path: str, params: Params | None = None) -> Any:
        return self._call("GET", path, params=params)

    def put(self, path: str, *, params: Params | None = None, body: Any = None) -> Any:
        return self._call("PUT", path, params=params, body=body)

    def post(self, path: str, *, body: Any) -> Any:
        return self._call("POST", path, body=body)

    @span("CMS call", kind=SpanKind.CLIENT)
    def download(self, path: str, *, max_bytes: int, max_sec: float) -> bytes:
        """Return a file as it is. Raises TooLarge above the limit, regardless of the announced length."""
        url = f"{self._base_url}/{path}"
        where = f"{self.service}: GET {urlsplit(url).path}"
        note(where, service=self.service)
        ends, data = time.monotonic() + max_sec, bytearray()
        with self._guard("GET file"):
            try:
                with self._session.get(
                    url, headers={"Accept": "*/*"}, timeout=self._timeout, allow_redirects=False, stream=True
                ) as response:
                    _raise_for_status(where, response)
                    for chunk in response.iter_content(CHUNK_BYTES):
                        data += chunk
                        if len(data) > max_bytes:
                            raise TooLarge(f"{where} answered more than {max_bytes >> 20} MB")
                        if time.monotonic() > ends:
                            raise ServiceUnavailable(f"{where} took more than {max_sec:.0f} s")
            except requests.RequestException as error:
                raise ServiceUnavailable(f"{where} got no answer: {describe(error)}") from error
        return bytes(data)

    @span("CMS call", kind=SpanKind.CLIENT)
    def _call(self, method: str, path: str, *, params: Params | None = None, body: Any = None) -> Any:
        url = f"{self._base_url}/{path}"
        where = f"{self.service}: {method} {urlsplit(url).path}"
        note(where, service=self.service)
        with self._guard(f"{method} {path.partition('/')[0]}"):
            try:
                response = self._session.request(
                    method,
                    url,
                    params=params,
                    json=body,
                    timeout=self._timeout,
                    allow_redirects=False,
                    verify=self._ca_path,
                )
            except OSError as error:  # requests' errors, and those of a certificate that cannot be loaded
                raise ServiceUnavailable(f"{where} got no answer: {describe(error)}") from error
            _raise_for_status(where, response)
        try:
            return response.json()
        except ValueError as error:
            raise ServiceUnavailable(f"{where} did not return JSON") from error


def describe(error: Exception) -> str:
    """Return the error as one line of limited length."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:MAX_MESSAGE]


def _raise_for_status(where: str, response: requests.Response) -> None:
    status = response.status_code
    if status < 300:
        return
    reply = _reply(response)
    message = f"{where} answered {status}: {_service_message(response, reply)}"
    if status >= 500 or status == 429:
        raise ServiceUnavailable(message)
    if status == 404:
        raise NotFound(message)
    cure = (
        "Check the client certificate or token, and its roles" if status < 400 or status in {401, 403} else ""
    )
    raise HttpRefusal(message, status=status, reply=reply, cure=cure)


def _reply(response: requests.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _service_message(response: requests.Response, reply: Any) -> str:
    """Return the service's message: ReqMgr2 sends it in a header, DBS in a list with one document."""
    words = response.headers.get("X-Error-Detail", "")
    document = reply[0] if isinstance(reply, list) and reply else reply
    if not words and isinstance(document, dict):
        error = document.get("error")
        inner = error if isinstance(error, dict) else {}
        words = str(inner.get("reason") or document.get("message") or error or "")
    words = words or response.headers.get("Location", "") or response.reason or "no reason given"
    return " ".join(words.split())[:MAX_MESSAGE]
