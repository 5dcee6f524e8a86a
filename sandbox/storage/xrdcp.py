"""Storage by the XRootD protocol, through the programs xrdcp and xrdfs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from sandbox.jsonfile import clean_text
from sandbox.storage.base import (
    Deadline,
    Entry,
    FileStat,
    Kind,
    StorageError,
    Timeouts,
    check_arrived,
    check_sent,
    checksum,
    local_error,
    part_name,
)
from sandbox.storage.listing import is_name

CURE = "install xrootd-client on the node, or give the site a davs:// prefix"
_SERVER_ERROR = re.compile(r"\[(3[0-9]{3})\]")
_KINDS = {
    3009: Kind.FULL,
    3010: Kind.DENIED,
    3011: Kind.ABSENT,
    3019: Kind.DAMAGED,
    3021: Kind.QUOTA,
    3024: Kind.DOWN,
    3025: Kind.DOWN,
    3030: Kind.DENIED,
    3034: Kind.TIMEOUT,
}
_WORDS = (
    ("auth failed", Kind.DENIED),
    ("operation expired", Kind.TIMEOUT),
    ("checksum", Kind.DAMAGED),
    ("connection error", Kind.DOWN),
    ("invalid address", Kind.DOWN),
    ("socket", Kind.DOWN),
    ("tls error", Kind.DOWN),
)


class Xrdcp:
    """Storage by root:// or roots:// URLs. Each call is a process: for many small files WebDAV is faster."""

    def __init__(self, *, token: Callable[[], str], ca_file: str, timeouts: Timeouts) -> None:
        self._token, self._ca_file, self._timeouts = token, ca_file, timeouts

    def stat(self, url: str) -> FileStat:
        """Return the size and the checksum that the storage has; it may compute it for the question."""
        server, path = _split(url)
        deadline = self._timeouts.deadline()
        facts = self._run(["xrdfs", server, "stat", path], url, deadline)
        size = re.search(r"^Size:\s+([0-9]{1,18})\s*$", facts, re.MULTILINE)
        if size is None or re.search(r"^Flags:.*\bIsDir\b", facts, re.MULTILINE):
            raise StorageError(Kind.ABSENT, 0, f"{url}: not a file")
        try:
            query = ["xrdfs", server, "query", "checksum", f"{path}?cks.type=adler32"]
            answer = self._run(query, url, deadline)
        except StorageError as error:
            if error.kind is not Kind.REFUSED:
                raise
            answer = ""  # this storage computes none
        found = re.search(r"\badler32\s+([0-9a-fA-F]{1,8})\b", answer)
        return FileStat(int(size[1]), found[1].lower().rjust(8, "0") if found else "")

    def get(self, url: str, local: Path) -> FileStat:
        """Copy the file, then measure it."""
        size = self.stat(url).size_bytes
        try:
            self._copy(_joined(url), str(local), url, self._timeouts.deadline(size))
            arrived = checksum(local)
        except StorageError as error:
            if "(destination)" in error.message:
                raise StorageError(Kind.LOCAL, error.status, error.message) from error
            raise
        except OSError as error:
            raise local_error(error) from error
        if arrived.size_bytes != size:
            raise StorageError(Kind.DAMAGED, 0, f"{url}: {arrived.size_bytes} of {size} bytes arrived")
        return arrived

    def put(self, local: Path, url: str, *, adler32: str = "") -> FileStat:
        """Write to a temporary name, compare with the checksum of the storage, then rename."""
        try:
            sent = checksum(local)
        except OSError as error:
            raise local_error(error) from error
        check_sent(local, sent, adler32)
        self._place(str(local), url, sent)
        return sent

    def delete(self, url: str) -> bool:
        """Delete a file."""
        server, path = _split(url)
        try:
            self._run(["xrdfs", server, "rm", path], url, self._timeouts.deadline())
        except StorageError as error:
            if error.kind is Kind.ABSENT:
                return False
            raise
        return True

    def list(self, url: str) -> list[Entry]:
        """Return the entries of a directory."""
        server, path = _split(url)
        try:
            lines = self._run(["xrdfs", server, "ls", "-l", path], url, self._timeouts.deadline())
        except StorageError as error:
            if error.kind is Kind.ABSENT:
                return []
            raise
        found = (Entry(line.rpartition("/")[2].strip(), line[:1] == "d") for line in lines.splitlines())
        return sorted((entry for entry in found if is_name(entry.name)), key=lambda entry: entry.name)

    def remove_directory(self, url: str) -> None:
        """Remove an empty directory."""
        server, path = _split(url)
        try:
            self._run(["xrdfs", server, "rmdir", path], url, self._timeouts.deadline())
        except StorageError as error:
            if error.kind is not Kind.ABSENT:
                raise

    def copy(self, source: str, target: str) -> None:
        """Copy through this machine: storages cannot copy among themselves by root:// with tokens alone."""
        self._place(_joined(source), target, self.stat(source))

    def open(self, url: str) -> BinaryIO:
        """Open a local copy that goes away when it is closed: xrdcp copies whole files."""
        copy = tempfile.NamedTemporaryFile(prefix="wms2-")  # noqa: SIM115 - the caller closes it
        try:
            self.get(url, Path(copy.name))
        except BaseException:
            copy.close()
            raise
        return copy  # type: ignore[return-value]

    def _place(self, source: str, url: str, expected: FileStat) -> None:
        part = part_name(url)
        try:
            self._copy(source, _joined(part), url, self._timeouts.deadline(expected.size_bytes))
            found = self.stat(part)
            if not found.adler32:  # all that this storage tells is the size
                found = FileStat(found.size_bytes, expected.adler32)
            check_arrived(url, found, expected)
            server, path = _split(url)
            self._run(["xrdfs", server, "mv", _split(part)[1], path], url, self._timeouts.deadline())
        except BaseException:
            with suppress(StorageError):
                self.delete(part)
            raise

    def _copy(self, source: str, target: str, url: str, deadline: Deadline) -> None:
        self._run(["xrdcp", "--nopbar", "--force", source, target], url, deadline)

    def _run(self, command: Sequence[str], url: str, deadline: Deadline) -> str:
        """Run a program and return its output. Raises StorageError."""
        if shutil.which(command[0]) is None:
            raise StorageError(Kind.SETUP, 0, f"{url}: there is no program {command[0]}: {CURE}")
        what = f"{command[0]} {url}"
        try:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=deadline.left(),
                env=self._environment(),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise StorageError(
                Kind.TIMEOUT, 0, f"{what}: not done within {deadline.seconds:.0f} s"
            ) from error
        except OSError as error:
            raise StorageError(Kind.SETUP, error.errno or 0, f"{what}: {error.strerror}") from error
        if ended.returncode != 0:
            raise _failure(what, ended.stderr.decode("utf-8", "replace"))
        return ended.stdout.decode("utf-8", "replace")

    def _environment(self) -> dict[str, str]:
        connect, idle = self._timeouts.connect_sec, self._timeouts.idle_sec
        mine = {
            "BEARER_TOKEN": self._token(),
            "XRD_CONNECTIONWINDOW": str(max(1, int(connect))),
            "XRD_CONNECTIONRETRY": "1",
            "XRD_REQUESTTIMEOUT": str(max(1, int(self._timeouts.fixed_sec))),
            "XRD_STREAMTIMEOUT": str(max(1, int(idle))),
            "LC_ALL": "C",
        }
        if self._ca_file:
            mine["X509_CERT_FILE"] = self._ca_file
        return {key: value for key, value in {**os.environ, **mine}.items() if value}


def _failure(what: str, errors: str) -> StorageError:
    text = " ".join(clean_text(errors).split())[-300:]
    number = _SERVER_ERROR.search(errors)
    code = int(number[1]) if number else 0
    by_words = next((kind for words, kind in _WORDS if words in errors.lower()), Kind.REFUSED)
    return StorageError(_KINDS.get(code, Kind.REFUSED) if code else by_words, code, f"{what}: {text}")


def _split(url: str) -> tuple[str, str]:
    """Return the server's URL and the absolute path."""
    scheme, _, rest = url.partition("://")
    server, _, path = rest.partition("/")
    return f"{scheme}://{server}", f"/{path.lstrip('/')}"


def _joined(url: str) -> str:
    """Return the URL with the double slash that an absolute path needs."""
    server, path = _split(url)
    return f"{server}/{path}"
