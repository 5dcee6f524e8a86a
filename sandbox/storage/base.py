"""Interface of the storage backends, and the errors they raise."""

from __future__ import annotations

import errno
import time
import zlib
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Protocol
from uuid import uuid4

CHUNK_BYTES = 1024 * 1024
PART_MARK = ".part-"  # of files that are not complete yet: `<name>.part-<8 digits>`


class Kind(Enum):
    """Kind of a storage error."""

    ABSENT = "absent"  # no file of this name can be opened
    DENIED = "denied"
    QUOTA = "quota"
    FULL = "full"
    DOWN = "down"  # it does not answer, or says that it cannot serve anybody
    TIMEOUT = "timeout"
    DAMAGED = "damaged"  # other bytes arrived than were sent
    REFUSED = "refused"  # for any other reason
    LOCAL = "local"  # the file on this machine could not be read or written
    SETUP = "setup"  # this machine cannot use the storage: no program, no such scheme


RETRIED = frozenset({Kind.DOWN, Kind.TIMEOUT, Kind.DAMAGED})


class StorageError(Exception):
    """`status` is the protocol's own number: of HTTP, XRootD or errno; 0 = there was no answer."""

    def __init__(self, kind: Kind, status: int, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.message = message


@dataclass(frozen=True)
class FileStat:
    """Size and checksum of a file; adler32 '' = the storage does not know it."""

    size_bytes: int
    adler32: str


@dataclass(frozen=True)
class Entry:
    """One entry of a directory."""

    name: str
    is_directory: bool


@dataclass(frozen=True)
class Timeouts:
    """A transfer may take `fixed_sec` and the time its bytes take at `bytes_per_sec`."""

    connect_sec: float = 30.0
    idle_sec: float = 60.0  # without any byte
    fixed_sec: float = 300.0
    bytes_per_sec: float = 1_000_000.0

    def deadline(self, size_bytes: int = 0) -> Deadline:
        """Start the clock for one operation."""
        return Deadline(self.fixed_sec + size_bytes / self.bytes_per_sec)


class Deadline:
    """The end of the time that an operation may take."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds left. Raises StorageError if there are none."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise StorageError(Kind.TIMEOUT, 0, f"not done within {self.seconds:.0f} s")
        return left


class Backend(Protocol):
    """One way to reach storage. Names are URLs, or paths; every method raises StorageError."""

    def stat(self, url: str) -> FileStat:
        """Return the size and, where the storage knows it, the checksum of a file."""

    def get(self, url: str, local: Path) -> FileStat:
        """Copy a file to this machine and return what arrived."""

    def put(self, local: Path, url: str, *, adler32: str = "") -> FileStat:
        """Copy a local file to storage: complete and verified under its name, or not at all.

        `adler32` is what the local file must have ('' = anything).
        """

    def delete(self, url: str) -> bool:
        """Delete a file; return False if it was not there."""

    def list(self, url: str) -> list[Entry]:
        """Return the entries of a directory; none if there is no such directory."""

    def remove_directory(self, url: str) -> None:
        """Remove a directory that is empty."""

    def copy(self, source: str, target: str) -> None:
        """Copy a file within or between storages of this kind, verified, without this machine if possible."""

    def open(self, url: str) -> BinaryIO:
        """Open a file for reading with seek, without copying all of it if possible."""


class Checksum:
    """Adds up the size and adler32 of chunks."""

    def __init__(self) -> None:
        self._size, self._value = 0, 1

    def add(self, chunk: bytes) -> None:
        """Add a chunk."""
        self._size += len(chunk)
        self._value = zlib.adler32(chunk, self._value)

    def result(self) -> FileStat:
        """Return the size and checksum so far."""
        return FileStat(self._size, f"{self._value:08x}")


def checksum(path: Path) -> FileStat:
    """Return the size and adler32 of a local file. Raises OSError."""
    found = Checksum()
    with open(path, "rb") as handle:
        while chunk := handle.read(CHUNK_BYTES):
            found.add(chunk)
    return found.result()


def open_local(path: Path) -> BinaryIO:
    """Open a file of this machine for reading. Raises StorageError."""
    try:
        return open(path, "rb")
    except OSError as error:
        raise local_error(error) from error


def part_name(url: str) -> str:
    """Return a new temporary name beside a file."""
    return f"{url}{PART_MARK}{uuid4().hex[:8]}"


def check_sent(local: Path, sent: FileStat, adler32: str) -> None:
    """Raise StorageError if the local file is not what it was when its checksum was taken."""
    if adler32 and sent.adler32 != adler32:
        message = f"{local.name} has checksum {sent.adler32}, not {adler32}: it changed before it was copied"
        raise StorageError(Kind.LOCAL, 0, message)


def check_arrived(url: str, found: FileStat, sent: FileStat) -> None:
    """Raise StorageError unless the storage has what was sent."""
    if found != sent:
        raise StorageError(Kind.DAMAGED, 0, f"{url}: {_shown(found)} arrived where {_shown(sent)} was sent")


def local_error(error: OSError) -> StorageError:
    """Return the error of a file on this machine."""
    where = f"{Path(str(error.filename)).name}: " if error.filename else ""
    return StorageError(Kind.LOCAL, error.errno or errno.EIO, f"{where}{error.strerror or error}")


def _shown(stat: FileStat) -> str:
    return f"{stat.size_bytes} bytes with checksum {stat.adler32 or 'unknown'}"
