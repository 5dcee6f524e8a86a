"""A site's storage: input is believed when size and checksum are right, output appears whole or not."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from sandbox import names
from sandbox.atomic import replacing
from sandbox.context import Context
from sandbox.failure import (
    FILE_CORRUPT,
    FILE_OPEN,
    FILE_READ,
    NOT_AUTHORISED,
    QUOTA,
    STAGE_OUT,
    STAGE_OUT_TIMEOUT,
    STORAGE_DOWN,
    WRAPPER,
    JobFailure,
)
from sandbox.filefacts import CHUNK_BYTES, checksum

_WRITE_ERRORS = {
    errno.EACCES: NOT_AUTHORISED,
    errno.EPERM: NOT_AUTHORISED,
    errno.EDQUOT: QUOTA,
    errno.ENOSPC: STORAGE_DOWN,
    errno.EROFS: STORAGE_DOWN,
    errno.ETIMEDOUT: STAGE_OUT_TIMEOUT,
}


def verified_input(context: Context, lfn: str, size_bytes: int, adler32: str) -> Path:
    """Path of an input file that is there and is the file that was planned ('' = checksum unknown)."""
    path, size, found = measured_input(context, lfn)
    if size != size_bytes:
        raise _blame(FILE_CORRUPT, "FatalRootError", lfn, f"{size} bytes where {size_bytes} were planned")
    if adler32 and found != adler32:
        raise _blame(FILE_CORRUPT, "FatalRootError", lfn, f"checksum {found} where {adler32} was planned")
    return path


def measured_input(context: Context, lfn: str) -> tuple[Path, int, str]:
    """Path, size and checksum of an input file that is there."""
    root = Path(names.pfn(context.manifest.storage, context.site, ""))
    if not root.is_dir():
        # A storage that is gone as a whole says nothing about the file: do not blame it.
        told = f"StorageDown: the storage of {context.site} is not there"
        raise JobFailure(STORAGE_DOWN, told, source=WRAPPER)
    path = context.pfn(lfn)
    try:
        return path, *checksum(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        raise _blame(FILE_OPEN, "FileOpenError", lfn, f"{error.strerror} at {context.site}") from error
    except OSError as error:
        raise _blame(FILE_READ, "FileReadError", lfn, f"{error.strerror} at {context.site}") from error


def input_url(context: Context, lfn: str) -> str:
    """Return where a payload may read an input file by itself."""
    return str(context.pfn(lfn))


def unreadable(lfn: str, why: str) -> JobFailure:
    """The failure of an input whose bytes are right and whose content is not."""
    return JobFailure(FILE_READ, f"FileReadError: {lfn}: {why}", bad_inputs=[lfn])


def stage_out(context: Context, local: Path, lfn: str, adler32: str) -> None:
    """Copy a local file to storage; it takes its name there only when all of it is written and checked."""
    target = context.pfn(lfn)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(local, "rb") as source, replacing(target) as copy:
            shutil.copyfileobj(source, copy, CHUNK_BYTES)
        written = checksum(target)[1]
    except OSError as error:
        code = _WRITE_ERRORS.get(error.errno or 0, STAGE_OUT)
        told = f"StageOutFailure: {lfn} at {context.site}: {error.strerror}"
        if error.filename == str(local):  # the payload's own file
            raise JobFailure(code, told) from error
        raise JobFailure(code, told, source=WRAPPER) from error
    if written != adler32:
        told = f"StageOutFailure: {lfn} at {context.site}: arrived with checksum {written}, not {adler32}"
        raise JobFailure(STAGE_OUT, told)


def _blame(code: int, kind: str, lfn: str, why: str) -> JobFailure:
    return JobFailure(code, f"{kind}: {lfn}: {why}", bad_inputs=[lfn], source=WRAPPER)
