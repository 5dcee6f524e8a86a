"""Archives of submit directories: one compressed tar file per round, kept longer than the directory."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic
from uuid import UUID

from django.conf import settings

from sandbox.atomic import replacing
from wms2_project.access.audit_archive import archive_root

SUFFIX = ".tar.gz"
COMPRESSION = 6
KINDS = (stat.S_IFREG, stat.S_IFDIR)


def archive_path(dag_id: UUID) -> Path:
    """Return the archive of the directory that this DAG created, in one of 256 folders."""
    return archive_root() / dag_id.hex[:2] / f"{dag_id}{SUFFIX}"


def archive_directory(directory: Path, *, dag_id: UUID) -> None:
    """Write the archive in one go, unless it exists. An interrupted call leaves no archive behind.

    Regular files and directories are archived, without owners. Links and pipes that a job may have left
    are not.
    """
    target = archive_path(dag_id)
    if target.exists() or not directory.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        replacing(target, mode=0o600) as handle,
        tarfile.open(fileobj=handle, mode="w:gz", compresslevel=COMPRESSION) as archive,
    ):
        for path in _members(directory):
            name = str(path.relative_to(directory))
            archive.add(path, arcname=name, recursive=False, filter=_without_owner)


def remove_old_archives(*, now: datetime, seconds: float) -> int:
    """Remove archives older than the retention policy, for a bounded time; return how many."""
    ends = monotonic() + seconds
    oldest = (now - timedelta(days=settings.KEEP_ARCHIVES_DAYS)).timestamp()
    removed = 0
    for entry in _archives(archive_root()):
        if monotonic() >= ends:
            break
        if entry.stat(follow_symlinks=False).st_mtime < oldest:
            Path(entry.path).unlink(missing_ok=True)
            removed += 1
    return removed


def _members(directory: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(directory):
        folders.sort()
        paths = (Path(folder, name) for name in sorted([*folders, *files]))
        yield from (path for path in paths if stat.S_IFMT(path.lstat().st_mode) in KINDS)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _archives(root: Path) -> Iterator[os.DirEntry[str]]:
    if not root.is_dir():
        return
    with os.scandir(root) as parts:
        for part in parts:
            if part.is_dir(follow_symlinks=False):
                with os.scandir(part.path) as entries:
                    yield from (entry for entry in entries if entry.name.endswith(SUFFIX))
