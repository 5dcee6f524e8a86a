"""Checks of the machine before anything is started, and private directories of a stack."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from lab.errors import LabError
from lab.paths import Layout

SOCKET_PATH_MAX_BYTES = 107
LONGEST_SOCKET_NAME_BYTES = 45  # HTCondor's
OPEN_FILES_WANTED = 65536
OPEN_FILES_ENOUGH = 4096
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - probed, not used for our files
SHARED_MEMORY_ENOUGH_MB = 32
DISK_MIN_MB = 300


def check_host(layout: Layout, warn: Callable[[str], None]) -> None:
    """Raise LabError on a machine on which the stack would fail later."""
    raise_open_files(warn)
    check_shared_memory(warn)
    free_mb = shutil.disk_usage(layout.home).free >> 20
    if free_mb < DISK_MIN_MB:
        raise LabError(
            f"only {free_mb} MB free for {layout.home}, {DISK_MIN_MB} MB are needed: "
            "free some space or set WMS2_HOME to a larger disk"
        )


def raise_open_files(warn: Callable[[str], None]) -> None:
    """Set the limit of open files: 1024 are too few for a schedd, a million slow down its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    want = OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_WANTED)
    if soft != want:
        resource.setrlimit(resource.RLIMIT_NOFILE, (want, want))
    if want < OPEN_FILES_ENOUGH:
        warn(f"warning: only {want} open files allowed (ulimit -n); large DAGs will fail")


def check_shared_memory(warn: Callable[[str], None]) -> None:
    try:
        with tempfile.TemporaryFile(dir=SHARED_MEMORY):
            pass
    except OSError as error:
        raise LabError(
            f"{SHARED_MEMORY} is not writable ({error}), and Celery's workers need it: mount a tmpfs there "
            "(in a container: --shm-size=256m)"
        ) from error
    free_mb = shutil.disk_usage(SHARED_MEMORY).free >> 20
    if free_mb < SHARED_MEMORY_ENOUGH_MB:
        warn(f"warning: only {free_mb} MB free in {SHARED_MEMORY}")


def socket_directory(layout: Layout) -> Path:
    """Return a directory for Unix sockets: their paths are limited to 107 bytes."""
    if len(os.fsencode(layout.run)) + LONGEST_SOCKET_NAME_BYTES <= SOCKET_PATH_MAX_BYTES:
        probe = layout.run / "probe"
        probe.unlink(missing_ok=True)
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.bind(str(probe))
            probe.unlink()
            return layout.run
        except OSError:
            pass
    short = Path(f"/tmp/wms2-{os.getuid()}-{layout.key}")  # noqa: S108 - checked below
    short.mkdir(mode=0o700, exist_ok=True)
    info = short.lstat()
    if short.is_symlink() or info.st_uid != os.getuid() or info.st_mode & 0o777 != 0o700:
        raise LabError(f"{short} exists and is not a private directory of this user: remove it and try again")
    return short


def private_tmp(sockets: Path) -> Path:
    """Return a TMPDIR of the stack, emptied at every start."""
    tmp = sockets / "tmp"
    shutil.rmtree(tmp, ignore_errors=True)
    tmp.mkdir(mode=0o700)
    return tmp


def reachable_path() -> str:
    """Return PATH without directories that this user cannot enter."""
    return ":".join(d for d in os.environ.get("PATH", "").split(":") if d and os.access(d, os.X_OK))
