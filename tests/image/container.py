"""`python container.py SPEC COMMAND…`: run a command in an unpacked image, as a container runtime does.

SPEC is a JSON file written by `application.Application`. The command runs in namespaces of its own, with the
image's files read-only, as the image's user and without privileges. Outside, that user is the caller: an
ordinary user can map no other.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

NEW_MOUNTS, NEW_HOSTNAME, NEW_USER = 0x20000, 0x4000000, 0x10000000
READ_ONLY, NO_SUID, NO_DEVICES, REMOUNT, BIND, RECURSIVE, SLAVE = 1, 2, 4, 32, 4096, 16384, 1 << 19
DEATH_SIGNAL, NO_NEW_PRIVILEGES = 1, 38  # of prctl
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    become(spec["uid"], spec["gid"])
    root = compose_root(Path(spec["files"]), Path(spec["work"]), spec["mounts"])
    check(_libc.sethostname(spec["hostname"].encode(), len(spec["hostname"])), "sethostname")
    os.chroot(root)
    os.chdir(spec["directory"])
    check(_libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    check(_libc.prctl(DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0), "prctl")  # it ends with its parent
    os.execve("/usr/bin/env", ["env", *sys.argv[2:]], spec["environment"])  # noqa: S606


def become(uid: int, gid: int) -> None:
    """Enter new namespaces in which this process has the ids."""
    outside = os.getuid(), os.getgid()
    check(_libc.unshare(NEW_USER | NEW_MOUNTS | NEW_HOSTNAME), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {outside[0]} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {outside[1]} 1")


def compose_root(files: Path, work: Path, mounts: list[list[Any]]) -> Path:
    """Mount the files, below a layer that holds the mount points, and the volumes; allow no writing."""
    mount(None, "/", flags=RECURSIVE | SLAVE)
    mount("tmpfs", work, "tmpfs")
    root, upper, used = work / "root", work / "upper", work / "used"
    for directory in (root, upper, used):
        directory.mkdir()
    layers = f"lowerdir={files},upperdir={upper},workdir={used},userxattr"
    mount("overlay", root, "overlay", options=layers)
    for source, target, read_only in mounts:
        point = root / target.lstrip("/")
        point.mkdir(parents=True, exist_ok=True)
        mount(source, point, flags=BIND | RECURSIVE)
        if read_only:
            mount(None, point, flags=BIND | REMOUNT | READ_ONLY | NO_SUID | NO_DEVICES)
    mount(None, root, flags=BIND | REMOUNT | READ_ONLY)
    return root


def mount(
    source: str | None, target: str | Path, kind: str | None = None, *, flags: int = 0, options: str = ""
) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    code = _libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None)
    check(code, f"mount {source} at {target}")


def check(code: int, what: str) -> None:
    if code:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    main()
