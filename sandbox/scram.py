"""The operating system that a ScramArch such as el8_amd64_gcc12 needs. Pure.

The only table of it: submit files name the system for the pilots (`REQUIRED_OS`), jobs compare it with the
node's own and enter a container where it differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

ANY_OS = "any"
# First word of the ScramArch -> major version of Red Hat Enterprise Linux
_VERSIONS = {
    "slc5": 6,
    "slc6": 6,
    "slc7": 7,
    "cc8": 8,
    "cs8": 8,
    "alma8": 8,
    "el8": 8,
    "cs9": 9,
    "el9": 9,
    "el10": 10,
}
OS_RELEASE, REDHAT_RELEASE = Path("/etc/os-release"), Path("/etc/redhat-release")
_FAMILY = frozenset({"rhel", "centos", "fedora", "almalinux", "rocky", "scientific"})


def required_version(arch: str) -> int | None:
    """Return the major version a ScramArch needs; None if it is not in the table."""
    return _VERSIONS.get(arch.partition("_")[0])


def required_os(arches: Iterable[str]) -> str:
    """Return the system that all arches need, such as rhel8; `any` if they differ or need none."""
    versions = {required_version(arch) for arch in arches}
    version = versions.pop() if len(versions) == 1 else None
    return ANY_OS if version is None else f"rhel{version}"


def node_version(os_release: Path = OS_RELEASE, redhat_release: Path = REDHAT_RELEASE) -> int | None:
    """Return the major version of the node's own Red Hat family system; None if it is of another family."""
    fields = dict(re.findall(r'^([A-Z_]+)="?([^"\n]*)"?$', _text(os_release), re.MULTILINE))
    family = {fields.get("ID", ""), *fields.get("ID_LIKE", "").split()}
    if family & _FAMILY:
        found = re.match(r"[0-9]+", fields.get("VERSION_ID", ""))
    else:  # version 6 has no os-release
        found = re.search(r"(?<=release )[0-9]+", _text(redhat_release))
    return int(found.group()) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
