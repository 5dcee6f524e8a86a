"""Requests to a WebDAV storage: target, headers and local file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import quote, urljoin, urlsplit

from sandbox.storage.base import (
    CHUNK_BYTES,
    Checksum,
    Deadline,
    FileStat,
    Kind,
    StorageError,
    local_error,
)

SAFE = "/=+,:@~"  # characters of a path that are sent as they are
SECURE_SCHEMES = ("davs", "https")


@dataclass(frozen=True)
class Target:
    """Target of a request; `path` is quoted and includes the query."""

    secure: bool
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> Target:
        """Parse the URL of a file. The text after host and port is a path with any characters."""
        scheme, _, rest = url.partition("://")
        server, _, path = rest.partition("/")
        return cls._of(scheme, server, quote(f"/{path}", safe=SAFE))

    def redirected(self, location: str) -> Target:
        """Parse a Location, which is quoted already."""
        parts = urlsplit(urljoin(self.url, location))
        query = f"?{parts.query}" if parts.query else ""
        return self._of(parts.scheme, parts.netloc.rpartition("@")[2], f"{parts.path or '/'}{query}")

    @classmethod
    def _of(cls, scheme: str, server: str, path: str) -> Target:
        secure = scheme in SECURE_SCHEMES
        parts = urlsplit(f"//{server}")
        try:
            port = parts.port or (443 if secure else 80)
        except ValueError:
            port = 0
        if not port or not parts.hostname or not (secure or scheme == "http"):
            raise StorageError(Kind.SETUP, 0, f"{scheme}://{server} is not a WebDAV storage")
        return cls(secure, parts.hostname, port, path)

    @property
    def server(self) -> tuple[bool, str, int]:
        """The key under which connections are kept open."""
        return self.secure, self.host, self.port

    @property
    def netloc(self) -> str:
        """Host and port."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL with the scheme https."""
        return f"{'https' if self.secure else 'http'}://{self.netloc}{self.path}"


class Upload:
    """The content of a request, read from a local file and measured on the way."""

    def __init__(self, source: BinaryIO, size_bytes: int) -> None:
        self._source = source
        self.size_bytes = size_bytes
        self.started = False
        self.sent = FileStat(0, "")

    def chunks(self) -> Iterator[bytes]:
        """Yield the content from its beginning. Raises StorageError if the file cannot be read as it was."""
        self.started, measured = True, Checksum()
        try:
            self._source.seek(0)
            while chunk := self._source.read(CHUNK_BYTES):
                measured.add(chunk)
                yield chunk
        except OSError as error:
            raise local_error(error) from error
        self.sent = measured.result()
        if self.sent.size_bytes != self.size_bytes:
            raise StorageError(Kind.LOCAL, 0, "the local file changed its size while it was copied")


@dataclass(frozen=True)
class Request:
    """A request; `headers` are those that not every request has."""

    method: str
    headers: Mapping[str, str]
    upload: Upload | None
    deadline: Deadline

    def head(self, target: Target, bearer: str) -> bytes:
        """Return the request line and the headers for one server."""
        headers = {"Host": target.netloc, "User-Agent": "wms2", "Accept-Encoding": "identity", **self.headers}
        if bearer and target.secure:
            headers["Authorization"] = f"Bearer {bearer}"
        if self.upload is not None:
            headers["Content-Length"] = str(self.upload.size_bytes)
            if self.upload.size_bytes:  # else there is nothing that could continue
                headers["Expect"] = "100-continue"
        elif self.method not in ("GET", "HEAD"):
            headers["Content-Length"] = "0"
        lines = [f"{self.method} {target.path} HTTP/1.1", *(f"{key}: {one}" for key, one in headers.items())]
        if any("\r" in line or "\n" in line for line in lines):
            raise StorageError(Kind.SETUP, 0, "a line break in a header")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
