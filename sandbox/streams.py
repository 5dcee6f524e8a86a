"""A job's standard output and error, bounded for any behaviour of the payload."""

from __future__ import annotations

import os
from contextlib import suppress

HEAD_BYTES = 1024 * 1024
TAIL_BYTES = 1024 * 1024
MAX_BYTES = 2 * 1024 * 1024  # of the file, before the last megabyte is appended
CHUNK_BYTES = 64 * 1024


class CappedStream:
    """Passes on the first megabyte, and on close the last one, with a line about what was left out."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._room = HEAD_BYTES
        self._tail = bytearray()
        self._dropped = 0

    def write(self, data: bytes) -> None:
        head, rest = data[: self._room], data[self._room :]
        self._room -= len(head)
        self._put(head)
        self._tail += rest
        if len(self._tail) > 2 * TAIL_BYTES:
            self._shorten()

    def close(self) -> None:
        self._shorten()
        if self._dropped:
            self._put(b"\n... %d bytes left out ...\n" % self._dropped)
        self._put(bytes(self._tail))
        self._tail.clear()

    def _shorten(self) -> None:
        excess = max(len(self._tail) - TAIL_BYTES, 0)
        self._dropped += excess
        del self._tail[:excess]

    def _put(self, data: bytes) -> None:
        with suppress(OSError):  # a full disk must not end the job
            while data:
                data = data[os.write(self._descriptor, data) :]


class StreamFile:
    """The file in the scratch directory, if any, to which a descriptor of this process writes."""

    def __init__(self, descriptor: int, directory: str) -> None:
        self._descriptor = descriptor
        self._path = ""
        with suppress(OSError):  # a job may be started without it
            own = os.fstat(descriptor)
            for entry in os.scandir(directory):
                if entry.inode() == own.st_ino and os.path.samestat(entry.stat(follow_symlinks=False), own):
                    self._path = entry.path

    def restore(self) -> None:
        """Make the file a regular one of bounded size again, under its name."""
        if not self._path:
            return
        if not self._is_in_place():
            with suppress(FileNotFoundError):
                os.rename(self._path, f"{self._path}.{os.urandom(8).hex()}")
            fresh = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            os.dup2(fresh, self._descriptor, inheritable=True)
            os.close(fresh)
            os.write(self._descriptor, b"... the payload had replaced this file ...\n")
        else:
            written = min(os.lseek(self._descriptor, 0, os.SEEK_CUR), MAX_BYTES)
            os.ftruncate(self._descriptor, written)
            os.lseek(self._descriptor, written, os.SEEK_SET)

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.lstat(self._path), os.fstat(self._descriptor))
        except OSError:
            return False
