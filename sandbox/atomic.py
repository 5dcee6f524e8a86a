"""Atomic writes: a file appears under its name complete and on disk, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def rename_on_disk(source: Path, path: Path) -> None:
    """Give a complete file its final name so that a crash leaves it whole under either name."""
    sync(source)
    os.replace(source, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Write a file or directory to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path, *, mode: int | None = None) -> Iterator[BinaryIO]:
    """Yield a handle on a temporary neighbour of `path`, which takes the name only on a clean exit.

    `mode` are its permissions, which it has from the first byte on or fewer; None leaves them to the umask.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o666 if mode is None else mode)

    try:
        with open(temporary, "xb", opener=opener) as handle:
            yield handle
            handle.flush()
            if mode is not None:
                os.fchmod(handle.fileno(), mode)
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
