"""Files of a job: input is accepted when size and checksum are right, output appears whole or not at all.

Input on mounted storage is read in place. From other storage it is copied into the scratch directory, or the
payload streams it (`input_url`). What goes wrong becomes the failure of the job: a file is blamed only if it
is missing or damaged, never for a storage that does not answer.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.failure import (
    CLAIM_REFUSED,
    CREDENTIAL_EXPIRED,
    FILE_CORRUPT,
    FILE_OPEN,
    FILE_READ,
    LOCAL_WRITE,
    NO_STORAGE,
    NOT_AUTHORISED,
    QUOTA,
    STAGE_OUT,
    STAGE_OUT_TIMEOUT,
    STORAGE_DOWN,
    WRAPPER,
    JobFailure,
)
from sandbox.report import Transfer
from sandbox.storage.base import FileStat, Kind, StorageError, checksum
from sandbox.storage.client import XROOTD, Done, family_of, is_mounted
from sandbox.storage.http_request import Target
from sandbox.storage.posix import local_path

if TYPE_CHECKING:
    from sandbox.context import Context

INPUTS = "inputs"  # the directory for copies, in the scratch directory
# Exit code and first word of the message; files are blamed for the first two.
_BLAMED = {Kind.ABSENT: (FILE_OPEN, "FileOpenError"), Kind.DAMAGED: (FILE_READ, "FileReadError")}
_READING = {
    Kind.DENIED: (NOT_AUTHORISED, "NotAuthorised"),
    Kind.LOCAL: (LOCAL_WRITE, "LocalWriteError"),
    Kind.SETUP: (NO_STORAGE, "StorageSetup"),
}
_WRITING = {
    Kind.DENIED: NOT_AUTHORISED,
    Kind.QUOTA: QUOTA,
    Kind.FULL: STORAGE_DOWN,
    Kind.DOWN: STORAGE_DOWN,
    Kind.TIMEOUT: STAGE_OUT_TIMEOUT,
    Kind.SETUP: NO_STORAGE,
}


def verified_input(
    context: Context, lfn: str, size_bytes: int, adler32: str, *, place: int | None = None
) -> Path:
    """Return the local path of an input file that is the planned one (adler32 '' = unknown)."""
    path, size, found = measured_input(context, lfn, place=place)
    wrong = ""
    if size != size_bytes:
        wrong = f"{size} bytes where {size_bytes} were planned"
    elif adler32 and found != adler32:
        wrong = f"checksum {found} where {adler32} was planned"
    if wrong:
        release_input(context, path)
        raise _blame(FILE_CORRUPT, "FatalRootError", lfn, wrong)
    return path


def measured_input(context: Context, lfn: str, *, place: int | None = None) -> tuple[Path, int, str]:
    """Return the local path, size and checksum of an input file.

    `place` is the number of the prefix that holds it; None = the first prefix of the site that gives it out.
    """
    prefixes = _prefixes(context)
    numbers = range(len(prefixes)) if place is None else [place]
    if place is not None and place >= len(prefixes):
        raise JobFailure(CLAIM_REFUSED, f"ClaimRefused: {lfn}: {context.site} has no prefix number {place}")
    first: StorageError | None = None
    for number in numbers:
        try:
            path, found = _fetched(context, prefixes[number], number, lfn)
            return path, found.size_bytes, found.adler32
        except StorageError as error:
            first = first or error
            if error.kind is Kind.LOCAL:
                break
    assert first is not None  # noqa: S101 - there is at least one prefix
    raise _input_failure(context, lfn, first) from first


def input_url(context: Context, lfn: str) -> str:
    """Return the URL of an input file for a payload that reads it from storage: file, https or root."""
    url = f"{_prefixes(context)[0]}{lfn}"
    if is_mounted(url):
        return f"file://{local_path(url)}"
    if family_of(url) == XROOTD:
        server, _, path = url.partition("://")[2].partition("/")
        return f"{url.partition('://')[0]}://{server}//{path.lstrip('/')}"
    return Target.of(url).url


def release_input(context: Context, path: Path) -> None:
    """Delete the copy of an input file in the scratch directory; a file on mounted storage stays."""
    if path.parent == context.scratch / INPUTS:
        with suppress(OSError):
            path.unlink()


def unreadable(lfn: str, why: str) -> JobFailure:
    """Return the failure of an input whose bytes are right and whose content is not."""
    return JobFailure(FILE_READ, f"FileReadError: {lfn}: {why}", bad_inputs=[lfn])


def stage_out(context: Context, local: Path, lfn: str, adler32: str) -> None:
    """Copy a local file to storage; it takes its name there only when all of it is written and checked.

    It goes to the next prefix of the site if one fails. WMS2 brings merged files from there to the first.
    """
    _prefixes(context)
    first: StorageError | None = None
    for number, prefix in enumerate(context.output_prefixes(lfn)):
        try:
            done = _placed(context, local, f"{prefix}{lfn}", prefix, adler32)
        except StorageError as error:
            first = first or error
            if error.kind is Kind.LOCAL:
                break
            continue
        problem = "; ".join(part for part in (first.message if first else "", done.problem) if part)
        context.transfers.append(_transfer("out", lfn, number, prefix, done, problem))
        return
    assert first is not None  # noqa: S101 - there is at least one prefix
    raise _output_failure(context, lfn, first) from first


def remove_directory(context: Context, lfn: str) -> list[str]:
    """Delete the files of a directory, then the directory, at every prefix of the site.

    Returns what could not be deleted.
    """
    left: list[str] = []
    for prefix in _prefixes(context):
        url = f"{prefix}{lfn}"
        try:
            for entry in sorted(context.storage.list(url), key=lambda one: one.name):
                try:
                    context.storage.delete(f"{url}/{entry.name}")
                except StorageError as error:
                    left.append(error.message)
            context.storage.remove_directory(url)
        except StorageError as error:
            left.append(error.message)
    return left


def _prefixes(context: Context) -> tuple[str, ...]:
    prefixes = context.prefixes
    if not prefixes:
        message = f"NoStorage: storage.json has no storage prefix for {context.site}"
        raise JobFailure(NO_STORAGE, message, source=WRAPPER)
    return prefixes


def _fetched(context: Context, prefix: str, number: int, lfn: str) -> tuple[Path, FileStat]:
    url = f"{prefix}{lfn}"
    if is_mounted(url):
        _check_mounted(context, prefix)
        return local_path(url), context.storage.stat(url)
    name = f"{hashlib.sha256(url.encode()).hexdigest()[:16]}-{lfn.rpartition('/')[2]}"
    local = context.scratch / INPUTS / name
    try:
        if local.exists():
            return local, checksum(local)
        local.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(Kind.LOCAL, error.errno or 0, f"{name}: {error.strerror}") from error
    try:
        done = context.storage.get(url, local)
    except BaseException:
        release_input(context, local)
        raise
    context.transfers.append(_transfer("in", lfn, number, prefix, done, done.problem))
    return local, done.result


def _placed(context: Context, local: Path, url: str, prefix: str, adler32: str) -> Done[FileStat]:
    if is_mounted(url):
        _check_mounted(context, prefix)
    return context.storage.put(local, url, adler32=adler32)


def _check_mounted(context: Context, prefix: str) -> None:
    """Raise StorageError if the root of a mounted storage is missing: nothing must be made in its place."""
    if not local_path(prefix).is_dir():
        raise StorageError(Kind.DOWN, 0, f"the storage of {context.site} does not exist: {prefix}")


def _transfer(
    direction: str, lfn: str, place: int, prefix: str, done: Done[FileStat], problem: str
) -> Transfer:
    return Transfer(
        direction=direction,
        lfn=lfn,
        place=place,
        prefix=prefix,
        size_bytes=done.result.size_bytes,
        seconds=done.seconds,
        bytes_per_sec=done.result.size_bytes / max(done.seconds, 1e-6),
        tries=done.tries,
        problem=problem,
    )


def _input_failure(context: Context, lfn: str, error: StorageError) -> JobFailure:
    if error.kind in _BLAMED:
        return _blame(*_BLAMED[error.kind], lfn, f"{error.message} at {context.site}")
    code, word = _READING.get(error.kind, (STORAGE_DOWN, "StorageDown"))
    message = f"{lfn} at {context.site}: {error.message}"
    return _expired(context, message, error) or JobFailure(code, f"{word}: {message}", source=WRAPPER)


def _output_failure(context: Context, lfn: str, error: StorageError) -> JobFailure:
    message = f"{lfn} at {context.site}: {error.message}"
    if error.kind is Kind.LOCAL:  # the payload's own file
        return JobFailure(STAGE_OUT, f"StageOutFailure: {message}")
    code = _WRITING.get(error.kind, STAGE_OUT)
    return _expired(context, message, error) or JobFailure(
        code, f"StageOutFailure: {message}", source=WRAPPER
    )


def _expired(context: Context, message: str, error: StorageError) -> JobFailure | None:
    """Return the failure of a job that was denied access because its token was not renewed; else None."""
    ended = context.storage.token_expired_at() if error.kind is Kind.DENIED else None
    if ended is None:
        return None
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ended))
    text = f"CredentialExpired: the job's token ended at {when} UTC: {message}"
    return JobFailure(CREDENTIAL_EXPIRED, text, source=WRAPPER)


def _blame(code: int, kind: str, lfn: str, why: str) -> JobFailure:
    return JobFailure(code, f"{kind}: {lfn}: {why}", bad_inputs=[lfn], source=WRAPPER)
