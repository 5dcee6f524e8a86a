"""HTTP to storage: connections that are kept open, redirections, tokens, and permission before an upload.

An upload asks for permission first (Expect: 100-continue), because storages such as dCache, EOS and StoRM
answer with a redirection to a disk server. The token is sent to https servers only.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from sandbox.jsonfile import clean_text
from sandbox.storage.base import (
    CHUNK_BYTES,
    Deadline,
    Kind,
    StorageError,
    Timeouts,
)
from sandbox.storage.http_request import Request, Target, Upload

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS = 5
MAX_IDLE = 4  # connections kept for one server
MAX_SHOWN = 300  # characters of an error's text
MAX_DRAINED = 64 * 1024  # unread bytes of an answer; beyond them the connection is closed
# XRootD 5.8 crashes or hangs if a connection is used, or closed, right after it computed a checksum for it.
REST_SEC = 1.0
_LOST = (ConnectionError, http.client.BadStatusLine, ssl.SSLEOFError, ssl.SSLZeroReturnError)
_DENIED = (401, 403)
_KINDS = {401: Kind.DENIED, 403: Kind.DENIED, 404: Kind.ABSENT, 410: Kind.ABSENT, 408: Kind.TIMEOUT}
_KINDS |= {429: Kind.DOWN, 504: Kind.TIMEOUT, 507: Kind.FULL}
_INTERIM = len("HTTP/1.1 100")


class Link:
    """One connection to one server."""

    def __init__(self, target: Target, tls: ssl.SSLContext, timeouts: Timeouts, deadline: Deadline) -> None:
        self.server = target.server
        self._timeouts = timeouts
        seconds = min(timeouts.connect_sec, deadline.left())
        try:
            plain = socket.create_connection((target.host, target.port), timeout=seconds)
        except socket.timeout as error:  # noqa: UP041 - another class before Python 3.10
            raise StorageError(Kind.DOWN, 0, f"no connection within {seconds:.0f} s") from error
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._socket = tls.wrap_socket(plain, server_hostname=target.host) if target.secure else plain
        except BaseException:
            plain.close()
            raise

    def ask(self, request: Request, head: bytes) -> http.client.HTTPResponse:
        """Send the request, the content only with the server's leave, and return the answer's head."""
        self._allow(request.deadline, self._timeouts.idle_sec)
        self._socket.sendall(head)
        self._allow(request.deadline, self._timeouts.fixed_sec)
        response = http.client.HTTPResponse(self._socket, method=request.method)
        upload = request.upload
        if upload is not None and (not upload.size_bytes or _may_proceed(response)):
            try:
                self._send(upload, request.deadline)
            except ConnectionError:
                # A server that refuses in the middle says why before it closes.
                response.begin()
                return response
        self._allow(request.deadline, self._timeouts.fixed_sec)
        response.begin()
        return response

    def allow_reading(self, deadline: Deadline) -> None:
        """Let the next read take as long as a read may take."""
        self._allow(deadline, self._timeouts.idle_sec)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _send(self, upload: Upload, deadline: Deadline) -> None:
        for chunk in upload.chunks():
            self._allow(deadline, self._timeouts.idle_sec)
            self._socket.sendall(chunk)

    def _allow(self, deadline: Deadline, seconds: float) -> None:
        self._socket.settimeout(min(deadline.left(), seconds))


def _may_proceed(response: http.client.HTTPResponse) -> bool:
    """Wait for the first answer to an upload and consume it if it is "100 Continue"."""
    reader = response.fp
    start = reader.peek(_INTERIM)[:_INTERIM]
    if len(start) < _INTERIM:
        raise http.client.RemoteDisconnected("the server closed the connection")
    if not start.endswith(b" 100"):
        return False
    while reader.readline(MAX_DRAINED).strip():
        pass
    return True


class Answer:
    """A response whose content is read within the time allowed."""

    def __init__(self, what: str, link: Link, response: http.client.HTTPResponse, deadline: Deadline) -> None:
        self._what, self._link, self._response, self._deadline = what, link, response, deadline
        self.status = response.status
        self.length = response.length  # of the content; None = the server does not say
        self.complete = self.length == 0

    def header(self, name: str) -> str:
        """Return a header, '' if it is missing."""
        return self._response.getheader(name) or ""

    def chunks(self) -> Iterator[bytes]:
        """Yield the content. Raises StorageError if it ends before its announced length."""
        received = 0
        while (self.length is None or received < self.length) and (chunk := self._read()):
            received += len(chunk)
            yield chunk
        if self.length is not None and received < self.length:
            message = f"{self._what}: {received} of {self.length} bytes arrived"
            raise StorageError(Kind.DAMAGED, self.status, message)
        self.complete = True

    def _read(self) -> bytes:
        """Return what there is to read next; nothing at the end, and where the connection was cut."""
        with _explained(self._what):
            self._link.allow_reading(self._deadline)
            try:
                return self._response.read1(CHUNK_BYTES)
            except ConnectionError:
                if self.length is None:
                    raise
                return b""

    def text(self, most: int) -> str:
        """Return the content as text. Raises StorageError if it is longer than `most` bytes."""
        data = bytearray()
        for chunk in self.chunks():
            data += chunk
            if len(data) > most:
                raise StorageError(Kind.REFUSED, self.status, f"{self._what}: an answer of over {most} bytes")
        return data.decode("utf-8", "replace")

    def reusable(self) -> bool:
        """Read a short rest; return whether the connection can carry another request."""
        if self._response.will_close:
            return False
        if not self.complete and self.length is not None and self.length <= MAX_DRAINED:
            for _ in self.chunks():
                pass
        return self.complete


class Connections:
    """The connections of one process. Several threads may use it."""

    def __init__(self, *, token: Callable[[], str], tls: ssl.SSLContext, timeouts: Timeouts) -> None:
        self._token, self._tls, self._timeouts = token, tls, timeouts
        self._idle: dict[tuple[bool, str, int], list[Link]] = {}
        self._resting: list[tuple[float, Link]] = []
        self._lock = threading.Lock()

    @contextmanager
    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        upload: Upload | None = None,
        deadline: Deadline | None = None,
        last: bool = False,
    ) -> Iterator[Answer]:
        """Send a request and yield the answer if it is a success. Raises StorageError.

        `last`: no other request may follow on the same connection (see REST_SEC).

        After a refusal the token is read again: if it was renewed meanwhile, the request is sent once more.
        Without a deadline, the answer has the time that its length allows.
        """
        what = f"{method} {url}"
        request = Request(method, headers or {}, upload, deadline or self._timeouts.deadline())
        with _explained(what):
            target, bearer = Target.of(url), self._token()
            link, response = self._follow(request, target, bearer)
            if response.status in _DENIED and bearer != (renewed := self._token()):
                link.close()
                link, response = self._follow(request, target, renewed)
        answer = Answer(what, link, response, deadline or self._timeouts.deadline(response.length or 0))
        kept = False
        try:
            if not 200 <= response.status < 300:
                raise _refusal(what, answer)
            yield answer
            kept = answer.reusable()
        finally:
            if last:
                self._rest(link)
            elif kept:
                self._keep(link)
            else:
                link.close()

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._lock:
            links = [link for kept in self._idle.values() for link in kept]
            links += [link for _, link in self._resting]
            self._idle.clear()
            self._resting.clear()
        for link in links:
            link.close()

    def _follow(self, request: Request, target: Target, bearer: str) -> tuple[Link, http.client.HTTPResponse]:
        for _ in range(MAX_REDIRECTS):
            link, response = self._exchange(request, target, bearer)
            location = response.getheader("Location")
            if response.status not in REDIRECTS or not location:
                return link, response
            link.close()
            target = target.redirected(location)
        raise StorageError(Kind.REFUSED, 0, f"redirected {MAX_REDIRECTS} times")

    def _exchange(
        self, request: Request, target: Target, bearer: str
    ) -> tuple[Link, http.client.HTTPResponse]:
        """Ask on a kept connection, or on a new one if there is none or the server has closed it."""
        head = request.head(target, bearer)
        kept = self._take(target)
        if kept is not None:
            try:
                return kept, kept.ask(request, head)
            except _LOST:
                kept.close()
                if request.upload is not None and request.upload.started:
                    raise
            except BaseException:
                kept.close()
                raise
        link = Link(target, self._tls, self._timeouts, request.deadline)
        try:
            return link, link.ask(request, head)
        except BaseException:
            link.close()
            raise

    def _take(self, target: Target) -> Link | None:
        with self._lock:
            kept = self._idle.get(target.server)
            return kept.pop() if kept else None

    def _rest(self, link: Link) -> None:
        now = time.monotonic()
        with self._lock:
            over = [one for since, one in self._resting if now - since > REST_SEC]
            self._resting = [one for one in self._resting if now - one[0] <= REST_SEC] + [(now, link)]
        for one in over:
            one.close()

    def _keep(self, link: Link) -> None:
        with self._lock:
            kept = self._idle.setdefault(link.server, [])
            if len(kept) < MAX_IDLE:
                kept.append(link)
                return
        link.close()


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Raise any network error as StorageError."""
    try:
        yield
    except StorageError as error:
        if what in error.message:
            raise
        raise StorageError(error.kind, error.status, f"{what}: {error.message}") from error
    except socket.timeout as error:  # noqa: UP041 - another class before Python 3.10
        raise StorageError(
            Kind.TIMEOUT, 0, f"{what}: the storage did not accept the upload in time"
        ) from error
    except ssl.SSLCertVerificationError as error:
        message = f"{what}: its certificate is not accepted: {error.verify_message}"
        raise StorageError(Kind.DOWN, 0, message) from error
    except (http.client.IncompleteRead, http.client.LineTooLong) as error:
        raise StorageError(Kind.DAMAGED, 0, f"{what}: the answer is cut off") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise StorageError(Kind.DOWN, 0, f"{what}: {reason}") from error


def _refusal(what: str, answer: Answer) -> StorageError:
    try:
        text = " ".join(clean_text(answer.text(MAX_DRAINED)).split())[:MAX_SHOWN]
    except StorageError:
        text = ""
    kind = _KINDS.get(answer.status) or (Kind.DOWN if answer.status >= 500 else Kind.REFUSED)
    if answer.status >= 500 and "quota" in text.lower():
        kind = Kind.QUOTA
    elif answer.status >= 500 and "no space left" in text.lower():  # XRootD answers 500
        kind = Kind.FULL
    return StorageError(kind, answer.status, f"{what}: {answer.status} {text}".rstrip())
