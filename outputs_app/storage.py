"""The sites' storage as the output check reads it: size, checksum and first bytes of merged files."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from outputs_app.models import OutputBlock, OutputFile
from sandbox.names import pfn
from wms2_project.errors import TransientError

CHUNK_BYTES = 1024 * 1024


class StorageUnavailable(TransientError):
    """The storage of a site cannot be read now, which says nothing about its files."""

    code = "storage_unavailable"


@dataclass(frozen=True, slots=True)
class Measured:
    """A file as it is on the storage."""

    size_bytes: int
    adler32: str
    begins: bytes  # its first bytes


def url_of(*, block: OutputBlock, file: OutputFile) -> str:
    """Return where the file is. Raise StorageUnavailable if the storage of its site is not there."""
    root = Path(pfn(settings.STORAGE_PREFIX, block.site, ""))
    if not settings.STORAGE_PREFIX or not root.is_dir():
        raise StorageUnavailable(
            f"the storage of {block.site} is not there: {root}",
            cure="Mount it or correct WMS2_STORAGE_PREFIX",
        )
    return pfn(settings.STORAGE_PREFIX, block.site, file.lfn)


def measure(url: str) -> Measured | None:
    """Return what the storage has under this name, None if there is no such file."""
    size, value, begins = 0, 1, b""
    try:
        with open(url, "rb") as handle:
            while chunk := handle.read(CHUNK_BYTES):
                begins = begins or chunk[:16]
                size += len(chunk)
                value = zlib.adler32(chunk, value)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise StorageUnavailable(f"{url}: {error.strerror}") from error
    return Measured(size, f"{value:08x}", begins)
