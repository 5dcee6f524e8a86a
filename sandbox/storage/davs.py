"""WebDAV over HTTPS with bearer tokens: what dCache, EOS, StoRM, Ceph and XRootD all speak."""

from __future__ import annotations

import io
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from sandbox.storage.base import (
    Checksum,
    Entry,
    FileStat,
    Kind,
    StorageError,
    Timeouts,
    check_arrived,
    check_sent,
    local_error,
    open_local,
    part_name,
)
from sandbox.storage.connections import Connections
from sandbox.storage.http_request import Target, Upload
from sandbox.storage.listing import MAX_BYTES, parse_listing

BUFFER_BYTES = 256 * 1024
READ_BACK_BYTES = 1024 * 1024  # reading so much is cheaper than asking for its checksum
MAX_PROGRESS_BYTES = 16 * 1024 * 1024  # of the lines that a copy between storages writes while it goes on
_NO_PARENT = (404, 409)
_NOT_OVER_A_FILE = (405, 409, 412)


class Davs:
    """Storage by WebDAV. URLs begin with davs:// or https://."""

    def __init__(self, *, token: Callable[[], str], tls: ssl.SSLContext, timeouts: Timeouts) -> None:
        self._token, self._timeouts = token, timeouts
        self._web = Connections(token=token, tls=tls, timeouts=timeouts)

    def stat(self, url: str) -> FileStat:
        """Return the size and the checksum that the storage has; it may compute it for the question."""
        with self._web.request("HEAD", url, {"Want-Digest": "adler32"}, last=True) as answer:
            return FileStat(_whole(answer.header("Content-Length")), _adler32(answer.header("Digest")))

    def get(self, url: str, local: Path) -> FileStat:
        """Copy the file, measured on the way."""
        arrived = Checksum()
        with self._web.request("GET", url) as answer:
            try:
                with open(local, "wb") as copy:
                    for chunk in answer.chunks():
                        copy.write(chunk)
                        arrived.add(chunk)
            except OSError as error:
                raise local_error(error) from error
        return arrived.result()

    def put(self, local: Path, url: str, *, adler32: str = "") -> FileStat:
        """Write to a temporary name, compare what the storage has, then rename."""
        _check_name(url)
        part = part_name(url)
        try:
            sent = self._upload(local, part)
            check_sent(local, sent, adler32)
            check_arrived(url, self._stored(part, sent.size_bytes), sent)
            self._rename(part, url, sent)
        except BaseException:
            self._forget(part)
            raise
        return sent

    def delete(self, url: str) -> bool:
        """Delete a file."""
        try:
            with self._web.request("DELETE", url):
                return True
        except StorageError as error:
            if error.kind is Kind.ABSENT:
                return False
            raise

    def list(self, url: str) -> list[Entry]:
        """Return the entries of a directory."""
        try:
            with self._web.request("PROPFIND", url, {"Depth": "1"}) as answer:
                return parse_listing(answer.text(MAX_BYTES), url.partition("://")[2].partition("/")[2])
        except StorageError as error:
            if error.kind is Kind.ABSENT:
                return []
            raise

    def remove_directory(self, url: str) -> None:
        """Remove a directory if it is empty: some storages would delete all that is in it."""
        if self.list(url):
            raise StorageError(Kind.REFUSED, 0, f"{url}: the directory is not empty")
        self.delete(url)

    def copy(self, source: str, target: str) -> None:
        """Let the target's storage fetch the file from the source's storage (third-party copy)."""
        _check_name(target)
        expected = self._measured(source)
        part = part_name(target)
        headers = {"Source": Target.of(source).url, "Overwrite": "T", "Credential": "none"}
        if bearer := self._token():
            headers["TransferHeaderAuthorization"] = f"Bearer {bearer}"
        deadline = self._timeouts.deadline(expected.size_bytes)
        try:
            with self._web.request("COPY", part, headers, deadline=deadline) as answer:
                _check_copied(target, answer.status, answer.text(MAX_PROGRESS_BYTES))
            check_arrived(target, self._stored(part, expected.size_bytes), expected)
            self._rename(part, target, expected)
        except BaseException:
            self._forget(part)
            raise

    def open(self, url: str) -> BinaryIO:
        """Open the file; each read fetches a range of it."""
        with self._web.request("HEAD", url) as answer:
            size_bytes = _whole(answer.header("Content-Length"))
        return io.BufferedReader(_Ranges(self._web, url, size_bytes), BUFFER_BYTES)

    def close(self) -> None:
        """Close the connections."""
        self._web.close()

    def _upload(self, local: Path, url: str) -> FileStat:
        with open_local(local) as source:
            upload = Upload(source, os.fstat(source.fileno()).st_size)
            deadline = self._timeouts.deadline(upload.size_bytes)
            try:
                with self._web.request("PUT", url, upload=upload, deadline=deadline):
                    return upload.sent
            except StorageError as error:
                if error.status not in _NO_PARENT:
                    raise
            self._make_parents(url)
            with self._web.request("PUT", url, upload=upload, deadline=deadline):
                return upload.sent

    def _make_parents(self, url: str) -> None:
        """Make the directories above a file, for storages that do not do it themselves."""
        scheme, _, rest = url.partition("://")
        server, *parents = rest.split("/")[:-1]
        for depth in range(1, len(parents) + 1):
            with suppress(StorageError):  # most exist; what is missing in the end, the upload says
                directory = "/".join([server, *parents[:depth]])
                with self._web.request("MKCOL", f"{scheme}://{directory}"):
                    pass

    def _stored(self, url: str, size_bytes: int) -> FileStat:
        """Return size and checksum of a file: of a small one by reading it, else by asking the storage."""
        return self._read_back(url) if size_bytes <= READ_BACK_BYTES else self._measured(url)

    def _measured(self, url: str) -> FileStat:
        """Return size and checksum, from the content if the storage does not know the checksum."""
        found = self.stat(url)
        return found if found.adler32 else self._read_back(url)

    def _read_back(self, url: str) -> FileStat:
        arrived = Checksum()
        with self._web.request("GET", url) as answer:
            for chunk in answer.chunks():
                arrived.add(chunk)
        return arrived.result()

    def _rename(self, part: str, url: str, expected: FileStat) -> None:
        headers = {"Destination": Target.of(url).url, "Overwrite": "T"}
        try:
            with self._web.request("MOVE", part, headers):
                return
        except StorageError as error:
            if error.kind is Kind.ABSENT and self._stored(url, expected.size_bytes) == expected:
                return  # the answer to the first MOVE was lost
            if error.status not in _NOT_OVER_A_FILE:
                raise
        self.delete(url)  # some storages never rename over a file that exists
        with self._web.request("MOVE", part, headers):
            return

    def _forget(self, part: str) -> None:
        with suppress(StorageError):
            self.delete(part)


class _Ranges(io.RawIOBase):
    """A file on storage, read range by range."""

    def __init__(self, web: Connections, url: str, size_bytes: int) -> None:
        super().__init__()
        self._web, self._url, self._size = web, url, size_bytes
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0:
            return 0
        headers = {"Range": f"bytes={self._at}-{self._at + wanted - 1}"}
        with self._web.request("GET", self._url, headers) as answer:
            if answer.status != 206:
                raise StorageError(Kind.REFUSED, answer.status, f"{self._url}: it does not serve ranges")
            data = b"".join(answer.chunks())
        if len(data) > wanted:
            raise StorageError(Kind.DAMAGED, answer.status, f"{self._url}: more bytes than the range has")
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _check_name(url: str) -> None:
    """Refuse to write names that need quoting: storages differ in how they read the name to rename to."""
    if not Target.of(url).url.endswith(f"/{url.partition('://')[2].partition('/')[2]}"):
        raise StorageError(
            Kind.SETUP, 0, f"{url}: the name of a new file must not contain characters that need quoting"
        )


def _check_copied(target: str, status: int, progress: str) -> None:
    """An accepted copy (202) says at its end whether it succeeded."""
    last = progress.strip().splitlines()[-1:] or [""]
    if status == 202 and not last[0].lower().startswith("success"):
        message = f"COPY {target}: {last[0][:300] or 'the storage did not say that it succeeded'}"
        raise StorageError(Kind.DAMAGED, status, message)


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _adler32(digests: str) -> str:
    """Return the adler32 of a Digest header, '' if it has none."""
    for digest in digests.split(","):
        algorithm, _, value = digest.strip().partition("=")
        if algorithm.lower() == "adler32":
            return value.strip().lower().rjust(8, "0")
    return ""
