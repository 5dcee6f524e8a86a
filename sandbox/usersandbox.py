"""The request's own files: a tarball with a known SHA-256, unpacked without trust.

WMS2 checks it before it is shipped (`check_tarball`), the job again when it unpacks it into its work
directory. Only regular files and directories below the work directory are taken.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeVar

from sandbox.context import Context
from sandbox.failure import BAD_CONFIGURATION, SANDBOX_BROKEN, JobFailure
from sandbox.storage.base import CHUNK_BYTES

NAME = "user_sandbox.tar.gz"
DIGEST_FIELD = "sandbox_sha256"
MAX_MEMBERS = 20_000
MAX_UNPACKED_BYTES = 2 * 1024 * 1024 * 1024
MAX_NAME = 500
T = TypeVar("T")
SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_BROKEN = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError)


class BadTarball(Exception):
    """The file is not a tarball, or holds something that is not unpacked; the message names it."""


def check_tarball(source: BinaryIO) -> int:
    """Read the whole tarball and return the number of its files. Raises BadTarball."""
    files = 0
    for _, content in _members(source):
        for _ in content or ():
            pass
        files += content is not None
    return files


def unpack(source: BinaryIO, directory: Path) -> None:
    """Unpack a tarball into the directory, which must not hold any of its files. Raises BadTarball."""
    for member, content in _members(source):
        path = directory / member.name
        try:
            if content is None:
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = 0o700 if member.mode & 0o100 else 0o600
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(path, flags, mode), "wb") as target:
                target.writelines(content)
        except (FileExistsError, NotADirectoryError) as error:
            raise BadTarball(f"{member.name[:200]!r} is there twice") from error


def unpack_user_sandbox(context: Context) -> None:
    """Unpack the request's tarball into the work directory, once; do nothing for a request without one."""
    wanted = context.manifest.payload.get(DIGEST_FIELD)
    done = context.work / f".{NAME}.unpacked"
    if not wanted or done.exists():
        return
    try:
        with open(context.scratch / NAME, "rb") as source:
            found = sha256_of(source)
            if found != wanted:
                # What WMS2 shipped had this digest: it was damaged on the way, so another attempt may help.
                raise JobFailure(SANDBOX_BROKEN, f"{NAME}: SHA-256 {found} where {wanted} was shipped")
            source.seek(0)
            unpack(source, context.work)
    except FileNotFoundError as error:
        raise JobFailure(SANDBOX_BROKEN, f"{NAME}: it did not arrive with the job") from error
    except BadTarball as error:
        raise JobFailure(BAD_CONFIGURATION, f"payload: {NAME}: {error}") from error
    done.touch()


def sha256_of(source: BinaryIO) -> str:
    """Return the SHA-256 of the rest of a file."""
    digest = hashlib.sha256()
    while chunk := source.read(CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def _members(source: BinaryIO) -> Iterator[tuple[tarfile.TarInfo, Iterator[bytes] | None]]:
    """Yield each member with its content, None for a directory. Raises BadTarball for anything else."""
    room, count = MAX_UNPACKED_BYTES, 0
    archive = _read(lambda: tarfile.open(fileobj=source, mode="r|*"))  # noqa: SIM115
    while (member := _read(archive.next)) is not None:
        count += 1
        if count > MAX_MEMBERS:
            raise BadTarball(f"it holds more than {MAX_MEMBERS} files")
        _check_member(member)
        room -= member.size
        if room < 0:
            raise BadTarball(f"it unpacks to more than {MAX_UNPACKED_BYTES >> 20} MB")
        yield member, _chunks(archive, member) if member.isreg() else None
    if not count:
        raise BadTarball("it holds no files")


def _chunks(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    content = archive.extractfile(member)
    while content is not None and (chunk := _read(lambda: content.read(CHUNK_BYTES))):
        yield chunk


def _read(step: Callable[[], T]) -> T:
    try:
        return step()
    except _BROKEN as error:
        raise BadTarball(f"it is not a complete tarball: {str(error)[:200]}") from error


def _check_member(member: tarfile.TarInfo) -> None:
    shown, path = repr(member.name[:200]), PurePosixPath(member.name)
    if not (member.isreg() or member.isdir()):
        raise BadTarball(f"{shown} is a link or a device; only files and directories are unpacked")
    plain = member.name.isprintable() and len(member.name) <= MAX_NAME
    if not plain or path.is_absolute() or ".." in path.parts:
        raise BadTarball(f"{shown} is not a plain path below the work directory")
