"""All storages of one process: the backend of a URL is found by its scheme."""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from sandbox.storage.base import RETRIED, Backend, Entry, FileStat, Kind, StorageError, Timeouts
from sandbox.storage.davs import Davs
from sandbox.storage.posix import Posix
from sandbox.storage.tokens import discovered_token, token_end
from sandbox.storage.xrdcp import Xrdcp

PAUSES_SEC = (0.5, 2.0)  # between the tries of a transfer
GRID_CERTIFICATES = "/etc/grid-security/certificates"
DAVS, XROOTD, FILE = "davs", "root", "file"
_FAMILIES = {"davs": DAVS, "https": DAVS, "http": DAVS, "root": XROOTD, "roots": XROOTD, "file": FILE}
T = TypeVar("T")


@dataclass(frozen=True)
class Done(Generic[T]):
    """The result of the last of some tries; `problem` is the error of the one before, '' = there was none."""

    result: T
    tries: int
    seconds: float
    problem: str


class Storage:
    """Reads and writes files by URL. Every method but `close` raises StorageError.

    `token` is called before each request; `ca_file` holds the certificate authorities of the storages ('' =
    those of this machine). Several threads may use one object.
    """

    def __init__(
        self,
        *,
        token: Callable[[], str] = discovered_token,
        ca_file: str = "",
        timeouts: Timeouts | None = None,
        pauses_sec: Sequence[float] | None = None,
    ) -> None:
        self._token, self._ca_file = token, ca_file
        self._timeouts = timeouts or Timeouts()
        self._pauses = PAUSES_SEC if pauses_sec is None else pauses_sec
        self._backends: dict[str, Backend] = {}
        self._lock = threading.Lock()

    def has_token(self) -> bool:
        """Return whether there is a token for requests to storage."""
        return bool(self._token())

    def token_expired_at(self) -> float | None:
        """Return when the token ended, in Unix time; None if it has not, or does not say."""
        try:
            end = token_end(self._token())
        except StorageError:  # there is none that could be read
            return None
        return end if end is not None and end <= time.time() else None

    def backend(self, url: str) -> Backend:
        """Return the backend of a URL, made at the first call."""
        family = family_of(url)
        with self._lock:
            if family not in self._backends:
                self._backends[family] = self._make(family)
            return self._backends[family]

    def stat(self, url: str) -> FileStat:
        """Return the size and, where the storage knows it, the checksum of a file."""
        return self.backend(url).stat(url)

    def get(self, url: str, local: Path) -> Done[FileStat]:
        """Copy a file to this machine, in several tries."""
        return self._try(lambda: self.backend(url).get(url, local))

    def put(self, local: Path, url: str, *, adler32: str = "") -> Done[FileStat]:
        """Copy a local file to storage, whole and verified or not at all, in several tries."""
        return self._try(lambda: self.backend(url).put(local, url, adler32=adler32))

    def delete(self, url: str) -> bool:
        """Delete a file; return False if it was not there."""
        return self.backend(url).delete(url)

    def list(self, url: str) -> list[Entry]:
        """Return the entries of a directory; none if there is no such directory."""
        return self.backend(url).list(url)

    def remove_directory(self, url: str) -> None:
        """Remove a directory that is empty."""
        self.backend(url).remove_directory(url)

    def copy(self, source: str, target: str) -> None:
        """Copy a file between storages: directly where both are of one kind, else through this machine."""
        if family_of(source) == family_of(target):
            self.backend(target).copy(source, target)
            return
        with tempfile.TemporaryDirectory(prefix="wms2-") as directory:
            local = Path(directory) / "file"
            found = self.get(source, local).result
            self.put(local, target, adler32=found.adler32)

    def open(self, url: str) -> BinaryIO:
        """Open a file for reading with seek; WebDAV fetches only the ranges that are read."""
        return self.backend(url).open(url)

    def close(self) -> None:
        """Close the connections that are kept open."""
        with self._lock:
            backends = list(self._backends.values())
            self._backends.clear()
        for backend in backends:
            if isinstance(backend, Davs):
                backend.close()

    def _make(self, family: str) -> Backend:
        if family == FILE:
            return Posix(timeouts=self._timeouts)
        if family == XROOTD:
            return Xrdcp(token=self._token, ca_file=self._ca_file, timeouts=self._timeouts)
        return Davs(token=self._token, tls=_tls(self._ca_file), timeouts=self._timeouts)

    def _try(self, action: Callable[[], T]) -> Done[T]:
        problem = ""
        for number in range(len(self._pauses) + 1):
            began = time.monotonic()
            try:
                return Done(action(), number + 1, time.monotonic() - began, problem)
            except StorageError as error:
                if error.kind not in RETRIED or number == len(self._pauses):
                    raise
                problem = error.message
            time.sleep(self._pauses[number])
        raise AssertionError("the last try returns or raises")


def family_of(url: str) -> str:
    """Return which backend serves a URL or path. Raises StorageError if none does."""
    scheme, mark, _ = url.partition("://")
    family = _FAMILIES.get(scheme) if mark else FILE if url.startswith("/") else None
    if family is None:
        raise StorageError(Kind.SETUP, 0, f"{url:.200}: neither an absolute path nor a URL of a known scheme")
    return family


def is_mounted(url: str) -> bool:
    """Return whether this is a path or a file:// URL."""
    return family_of(url) == FILE


def _tls(ca_file: str) -> ssl.SSLContext:
    ca_file = ca_file or os.environ.get("X509_CERT_FILE", "")
    directory = os.environ.get("X509_CERT_DIR") or GRID_CERTIFICATES
    try:
        if ca_file:
            return ssl.create_default_context(cafile=ca_file)
        context = ssl.create_default_context()
        if os.path.isdir(directory):
            context.load_verify_locations(capath=directory)
        return context
    except (OSError, ssl.SSLError) as error:
        message = f"the certificate authorities in {ca_file or directory} cannot be read: {error}"
        raise StorageError(Kind.SETUP, 0, message) from error
