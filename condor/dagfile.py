"""The directory of a DAG, written so that it is either complete or absent.

Equal layouts give equal bytes; a directory that already has them is kept.
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
    LANDING_SITES_INCLUDE,
    MANIFEST,
    PAYLOAD,
    PRIORITY_FILE,
    PULL_ROLES,
    PUSH_ROLES,
    RAISED_LIMITS_INCLUDE,
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
REPORTS = "reports"
# Up to this many files, each is synced; beyond, one sync of the file system is much cheaper.
_SYNC_SINGLY = 64


class DagEntry(NamedTuple):
    """A file of the directory, or a directory (content None)."""

    path: str
    content: bytes | None
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class WrittenDag:
    """Result of `write_dag`; `kept` if the directory existed with the same content."""

    dag_file: Path
    digest: str
    groups: int
    kept: bool


def dag_entries(layout: DagLayout) -> Iterator[DagEntry]:
    """Yield every directory and file of the DAG, parents first, in a fixed order."""
    names: dict[str, None] = {}
    for group in layout.groups:
        if group.name in names:
            raise refuse("groups", f"{group.name} occurs twice")
        names[group.name] = None
        yield DagEntry(group.name, None)
        yield DagEntry(f"{group.name}/{GROUP_DAG}", render_group(layout, group).encode())
        # The manifest of runners has a token with which they start
        yield DagEntry(f"{group.name}/{MANIFEST}", group.manifest, 0o600 if layout.pull else 0o644)
        if layout.pull:
            yield from _runner_entries(group.name)
    if not names:
        raise refuse("groups", "a DAG needs at least one group")
    for role in PULL_ROLES if layout.pull else PUSH_ROLES:
        yield DagEntry(role.submit_file, _submit_text(layout, role).encode())
    yield DagEntry(CONFIG, render_config(layout.settings).encode())
    yield DagEntry(PRIORITY_FILE, render_priority(layout.priority).encode())
    yield DagEntry(BACK_DIRECTORY, None)
    yield DagEntry(PAYLOAD, layout.payload)
    yield from _asset_entries(layout)
    yield DagEntry(OUTER_DAG, render_outer(layout, list(names)).encode())


def _runner_entries(group: str) -> Iterator[DagEntry]:
    """Yield what the landing makes in other groups: the directory of reports, and files to include."""
    yield DagEntry(f"{group}/{REPORTS}", None)
    for include in (LANDING_SITES_INCLUDE, RAISED_LIMITS_INCLUDE):
        yield DagEntry(f"{group}/{include.rpartition(' ')[2]}", b"\n")


def write_dag(layout: DagLayout, directory: Path) -> WrittenDag:
    """Write the DAG's directory, or keep it if it has exactly this layout.

    A different layout is replaced unless it was submitted; then Conflict is raised.
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
            cure="Retried automatically. Check free space and permissions of the submit root",
        ) from error
    return WrittenDag(directory / OUTER_DAG, digest, groups, kept=False)


def read_assets(root: Path) -> tuple[Asset, ...]:
    """Return every file below `root` (run.sh, sandbox.tar.gz, scripts/…) as an asset."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return tuple(
        Asset(path.relative_to(root).as_posix(), path.read_bytes(), os.access(path, os.X_OK))
        for path in files
    )


@contextmanager
def submit_lock(directory: Path) -> Iterator[None]:
    """Hold the lock that lets one process at a time submit or edit the DAG in this directory."""
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
    """Digest over names, modes and contents; counts the groups."""

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
        if os.fstat(handle).st_mode & 0o777 != entry.mode:  # changed by the umask
            os.fchmod(handle, entry.mode)
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _staging(directory: Path) -> Iterator[Path]:
    """Yield an empty `<directory>.new`, locked for this process; removed if the block fails."""
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
    """Raise Conflict if the directory was submitted or not written by WMS2."""
    if (directory / f"{OUTER_DAG}.condor.sub").exists() or not (directory / DIGEST_FILE).exists():
        raise Conflict(
            f"{directory} contains another DAG that was submitted, or was not written by WMS2",
            cure="Plan into a new directory",
        )


def _lock(handle: int, message: str) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise TransientError(message, cure="Retried automatically") from error


def _sync_file_system(handle: int) -> None:
    """Call syncfs(2) on the file system of the handle."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(handle) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
