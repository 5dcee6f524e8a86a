"""A file on an HTTPS server as a seekable file object, read by ranges.

The bearer token is found as WLCG prescribes: $BEARER_TOKEN, else the file $BEARER_TOKEN_FILE, read anew for
each request because it is renewed while a job runs. $X509_CERT_FILE names a CA bundle, $X509_CERT_DIR a
directory of certificates.
"""

from __future__ import annotations

import io
import os
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from rootfiles.errors import UNREACHABLE, RootFileError

TIMEOUT_SEC = 60.0
BUFFER_BYTES = 1024 * 1024


class RangeFile(io.RawIOBase):
    """One request per read; wrap it into a buffer (`open_url`)."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._context = _tls()
        self._position = 0
        with self._request("HEAD", {}) as answer:
            self._size = int(answer.headers.get("Content-Length") or 0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        last = min(self._position + len(buffer), self._size) - 1
        if last < self._position:
            return 0
        with self._request("GET", {"Range": f"bytes={self._position}-{last}"}) as answer:
            if answer.status != 206 and (self._position or last + 1 != self._size):
                raise RootFileError(UNREACHABLE, "the server does not serve ranges", source=self._url)
            data: bytes = answer.read(last - self._position + 1)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _request(self, method: str, headers: dict[str, str]) -> Any:
        token = _token()
        if token:
            headers = {**headers, "Authorization": f"Bearer {token}"}
        request = urllib.request.Request(self._url, method=method, headers=headers)  # noqa: S310
        try:
            return urllib.request.urlopen(request, timeout=TIMEOUT_SEC, context=self._context)  # noqa: S310
        except (OSError, ValueError) as error:
            raise RootFileError(UNREACHABLE, str(error)[:300], source=self._url) from error


def open_url(url: str) -> io.BufferedReader:
    """Open an https:// or davs:// URL. Raises RootFileError if the server does not answer."""
    return io.BufferedReader(RangeFile(url.replace("davs://", "https://", 1)), BUFFER_BYTES)


def _token() -> str:
    if os.environ.get("BEARER_TOKEN"):
        return os.environ["BEARER_TOKEN"].strip()
    try:
        return Path(os.environ["BEARER_TOKEN_FILE"]).read_text("ascii").strip()
    except (KeyError, OSError):
        return ""


def _tls() -> ssl.SSLContext:
    file, directory = os.environ.get("X509_CERT_FILE") or None, os.environ.get("X509_CERT_DIR") or None
    return ssl.create_default_context(cafile=file, capath=None if file else directory)
