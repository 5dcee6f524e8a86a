"""The directory of one DAG, written so that it is either complete under its name or not there at all.

The same layout gives the same bytes; a directory that already holds them is kept.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from condor.dagtext import CONFIG, GROUP_DAG, OUTER_DAG, render_config, render_group, render_outer
from condor.layout import Asset, DagLayout, refuse
from condor.submitfile import (
    BACK_DIRECTORY,
    MANIFEST,
    PAYLOAD,
    PRIORITY_FILE,
    Role,
    SubmitDescription,
    goes_to,
    render_priority,
    render_submit,
)
from sandbox.atomic import sync
from wms2_project.errors import Conflict, TransientError

__all__ = [
    "DagEntry",
    "Digest",
    "WrittenDag",
    "dag_entries",
    "read_assets",
    "render_config",
    "render_group",
    "render_outer",
    "submit_lock",
    "write_dag",
]

DIGEST_FILE = "layout.sha256"
# Below this many files each is synced by itself; beyond it one sync of the file system is far cheaper.
_SYNC_SINGLY = 64


class DagEntry(NamedTuple):
    """A file of the directory, or (content None) a directory."""

    path: str
    content: bytes | None
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class WrittenDag:
    """What `write_dag` left behind; `kept` if it was there already."""

    dag_file: Path
    digest: str
    groups: int
    kept: bool


def dag_entries(layout: DagLayout) -> Iterator[DagEntry]:
    """Every directory and file of the DAG, parents first, always in the same order."""
    names: dict[str, None] = {}
    for group in layout.groups:
        if group.name in names:
            raise refuse("groups", f"{group.name} is there twice")
        names[group.name] = None
        yield DagEntry(group.name, None)
        yield DagEntry(f"{group.name}/{GROUP_DAG}", render_group(layout, group).encode())
        yield DagEntry(f"{group.name}/{MANIFEST}", group.manifest)
    if not names:
        raise refuse("groups", "a DAG needs at least one group")
    for role in Role:
        yield DagEntry(role.submit_file, _submit_text(layout, role).encode())
    yield DagEntry(CONFIG, render_config(layout.settings).encode())
    yield DagEntry(PRIORITY_FILE, render_priority(layout.priority).encode())
    yield DagEntry(BACK_DIRECTORY, None)
    yield DagEntry(PAYLOAD, layout.payload)
    yield from _asset_entries(layout)
    yield DagEntry(OUTER_DAG, render_outer(layout, list(names)).encode())


def write_dag(layout: DagLayout, directory: Path) -> WrittenDag:
    """Write the DAG's directory, or keep it if it already holds exactly this layout.

    A different one is replaced as long as it was never submitted; after that it is a Conflict.
    """
    if not directory.is_absolute():
        raise refuse("directory", f"{directory} is not an absolute path")
    if directory.exists():
        digest, groups = _digest(dag_entries(layout))
        if _stored_digest(directory) == digest:
            return WrittenDag(directory / OUTER_DAG, digest, groups, kept=True)
        _refuse_submitted(directory)
    try:
        with _staging(directory) as staging:
            digest, groups = _write(layout, staging)
            _publish(staging, directory)
    except OSError as error:
        raise TransientError(
            f"the DAG directory {directory} could not be written: {error}",
            cure="Make room or give access to the submit root; it is tried again",
        ) from error
    return WrittenDag(directory / OUTER_DAG, digest, groups, kept=False)


def read_assets(root: Path) -> tuple[Asset, ...]:
    """Every file below `root` (run.sh, sandbox.tar.gz, scripts/…) as an asset of the same relative path."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return tuple(
        Asset(path.relative_to(root).as_posix(), path.read_bytes(), os.access(path, os.X_OK))
        for path in files
    )


@contextmanager
def submit_lock(directory: Path) -> Iterator[None]:
    """Only one process at a time submits or amends the DAG in this directory."""
    handle = os.open(directory / ".submit.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _lock(handle, f"another process is submitting {directory}")
        yield
    finally:
        os.close(handle)


def _submit_text(layout: DagLayout, role: Role) -> str:
    return render_submit(
        SubmitDescription(
            role=role,
            request_name=layout.request_name,
            workflow_id=layout.workflow_id,
            held_grace_sec=layout.held_grace_sec,
            max_transfer_output_mb=layout.max_transfer_output_mb,
            gpus=layout.gpus,
            with_token=layout.with_token,
            job_proxy=layout.job_proxy,
            job_files=[asset.path for asset in layout.job_files if goes_to(asset.path, role)],
            required_os=layout.required_os,
        )
    )


def _asset_entries(layout: DagLayout) -> Iterator[DagEntry]:
    made: set[str] = set()
    for asset in sorted((*layout.assets, *layout.job_files), key=lambda item: item.path):
        for parent in reversed(Path(asset.path).parents[:-1]):
            if str(parent) not in made:
                made.add(str(parent))
                yield DagEntry(str(parent), None)
        yield DagEntry(asset.path, asset.content, 0o755 if asset.executable else 0o644)


class Digest:
    """Digest over names, modes and contents, and the number of groups seen on the way."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.groups = 0

    def add(self, entry: DagEntry) -> None:
        size = -1 if entry.content is None else len(entry.content)
        self._hash.update(f"{entry.path}\0{entry.mode:o}\0{size}\0".encode())
        if entry.content is not None:
            self._hash.update(entry.content)
        self.groups += entry.path.endswith(f"/{GROUP_DAG}")

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _digest(entries: Iterator[DagEntry]) -> tuple[str, int]:
    digest = Digest()
    for entry in entries:
        digest.add(entry)
    return digest.hexdigest(), digest.groups


def _write(layout: DagLayout, staging: Path) -> tuple[str, int]:
    root = os.open(staging, os.O_RDONLY | os.O_DIRECTORY)
    try:
        digest = Digest()
        directories = [""]
        files = 0
        for entry in dag_entries(layout):
            digest.add(entry)
            if entry.content is None:
                os.mkdir(entry.path, 0o755, dir_fd=root)
                directories.append(entry.path)
            else:
                files += 1
                _put(root, entry, sync=files <= _SYNC_SINGLY)
        _put(root, DagEntry(DIGEST_FILE, f"{digest.hexdigest()}\n".encode()), sync=files <= _SYNC_SINGLY)
        if files <= _SYNC_SINGLY:
            for path in directories:
                sync(staging / path)
        else:
            _sync_file_system(root)
        return digest.hexdigest(), digest.groups
    finally:
        os.close(root)


def _put(root: int, entry: DagEntry, *, sync: bool) -> None:
    handle = os.open(entry.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, entry.mode, dir_fd=root)
    try:
        rest = memoryview(entry.content or b"")
        while rest:
            rest = rest[os.write(handle, rest) :]
        if os.fstat(handle).st_mode & 0o777 != entry.mode:  # the umask took something away
            os.fchmod(handle, entry.mode)
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _staging(directory: Path) -> Iterator[Path]:
    """An empty `<directory>.new` that only we write to; gone afterwards unless it was published."""
    staging = directory.with_name(f"{directory.name}.new")
    staging.mkdir(parents=True, exist_ok=True)
    handle = os.open(staging, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(handle, f"another process is writing {directory}")
        if os.fstat(handle).st_ino != os.stat(staging).st_ino:
            raise TransientError(f"another process has just written {directory}")
        for leftover in staging.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        try:
            yield staging
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    finally:
        os.close(handle)


def _publish(staging: Path, directory: Path) -> None:
    if directory.exists():
        old = directory.with_name(f"{directory.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        os.rename(directory, old)
        os.rename(staging, directory)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.rename(staging, directory)
    sync(directory.parent)


def _stored_digest(directory: Path) -> str:
    try:
        return (directory / DIGEST_FILE).read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _refuse_submitted(directory: Path) -> None:
    """A directory we did not write, or one DAGMan may know, is never replaced."""
    if (directory / f"{OUTER_DAG}.condor.sub").exists() or not (directory / DIGEST_FILE).exists():
        raise Conflict(
            f"{directory} holds another DAG that was submitted, or is not ours",
            cure="Plan into a new directory",
        )


def _lock(handle: int, told: str) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise TransientError(told, cure="It is tried again") from error


def _sync_file_system(handle: int) -> None:
    """syncfs(2) on the file system that holds the handle."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(handle) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
