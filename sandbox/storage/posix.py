"""Storage that is mounted on this machine: plain paths and file:// URLs."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from sandbox.atomic import rename_on_disk
from sandbox.storage.base import (
    CHUNK_BYTES,
    Checksum,
    Entry,
    FileStat,
    Kind,
    StorageError,
    Timeouts,
    check_arrived,
    check_sent,
    checksum,
    local_error,
    open_local,
    part_name,
)

FILE_SCHEME = "file://"
_GONE = dict.fromkeys((errno.ESTALE, errno.ENOTCONN, errno.EHOSTDOWN, errno.ENODEV, errno.EROFS), Kind.DOWN)
_READING = {
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM), Kind.ABSENT),
    **_GONE,
    errno.ETIMEDOUT: Kind.TIMEOUT,
}
_WRITING = {
    errno.EACCES: Kind.DENIED,
    errno.EPERM: Kind.DENIED,
    errno.EDQUOT: Kind.QUOTA,
    errno.ENOSPC: Kind.FULL,
    errno.ETIMEDOUT: Kind.TIMEOUT,
    **_GONE,
}


def local_path(url: str) -> Path:
    """Return the path of a file:// URL or a plain path."""
    return Path(url[len(FILE_SCHEME) :] if url.startswith(FILE_SCHEME) else url)


class Posix:
    """A mounted file system. A mount that hangs in the kernel is beyond any timeout of this code."""

    def __init__(self, *, timeouts: Timeouts) -> None:
        self._timeouts = timeouts

    def stat(self, url: str) -> FileStat:
        """Return the size and the checksum, which takes reading the file."""
        try:
            return checksum(local_path(url))
        except OSError as error:
            raise _reading(url, error) from error

    def get(self, url: str, local: Path) -> FileStat:
        """Copy the file and return what arrived."""
        with self.open(url) as source:
            try:
                return self._copy(source, local, partial(_reading, url))
            except OSError as error:
                raise local_error(error) from error

    def put(self, local: Path, url: str, *, adler32: str = "") -> FileStat:
        """Write to a temporary name, read it back, then rename."""
        target = local_path(url)
        part = Path(part_name(str(target)))
        with open_local(local) as source:
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                sent = self._copy(source, part, local_error)
                check_sent(local, sent, adler32)
                check_arrived(url, checksum(part), sent)
                rename_on_disk(part, target)
            except OSError as error:
                raise _writing(url, error) from error
            finally:
                with suppress(OSError):
                    part.unlink()
        return sent

    def delete(self, url: str) -> bool:
        """Delete a file or a link."""
        try:
            os.unlink(local_path(url))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _writing(url, error) from error
        return True

    def list(self, url: str) -> list[Entry]:
        """Return the entries of a directory; links are files."""
        try:
            with os.scandir(local_path(url)) as entries:
                return [Entry(one.name, one.is_dir(follow_symlinks=False)) for one in entries]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _writing(url, error) from error

    def remove_directory(self, url: str) -> None:
        """Remove an empty directory."""
        try:
            os.rmdir(local_path(url))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _writing(url, error) from error

    def copy(self, source: str, target: str) -> None:
        """Copy a file, verified."""
        self.put(local_path(source), target)

    def open(self, url: str) -> BinaryIO:
        """Open the file itself."""
        try:
            return open(local_path(url), "rb")
        except OSError as error:
            raise _reading(url, error) from error

    def _copy(self, source: BinaryIO, target: Path, not_read: Callable[[OSError], StorageError]) -> FileStat:
        """Copy chunk by chunk within the time allowed. Raises OSError of the target."""
        deadline = self._timeouts.deadline(os.fstat(source.fileno()).st_size)
        copied = Checksum()
        with open(target, "wb") as copy:
            while True:
                deadline.left()
                try:
                    chunk = source.read(CHUNK_BYTES)
                except OSError as error:
                    raise not_read(error) from error
                if not chunk:
                    return copied.result()
                copy.write(chunk)
                copied.add(chunk)


def _reading(url: str, error: OSError) -> StorageError:
    kind = _READING.get(error.errno or 0, Kind.DAMAGED)
    return StorageError(kind, error.errno or 0, f"{url}: {error.strerror or error}")


def _writing(url: str, error: OSError) -> StorageError:
    kind = _WRITING.get(error.errno or 0, Kind.REFUSED)
    return StorageError(kind, error.errno or 0, f"{url}: {error.strerror or error}")
