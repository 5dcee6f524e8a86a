"""Puts the sandbox where it is needed: a tarball for worker nodes, a folder of scripts for DAGMan.

The tarball's bytes depend on the sources alone, so that planning the same work twice writes the same files.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import tarfile
from pathlib import Path

from sandbox.atomic import replacing

SOURCE = Path(__file__).parent
RUN_SCRIPT = SOURCE / "run.sh"
LAUNCHERS = ("post.sh", "elect_site.sh", "pre.sh", "landing.sh")
MTIME = 315_532_800  # 1980-01-01, the oldest date every archive tool accepts


def build_sandbox(target: Path) -> str:
    """Write the tarball of the package and return its SHA-256."""
    data = gzip.compress(_archive(), compresslevel=9, mtime=0)
    with replacing(target) as handle:
        handle.write(data)
    return hashlib.sha256(data).hexdigest()


def copy_scripts(target_dir: Path) -> None:
    """Put the launchers into `target_dir` and the package they start into `target_dir/sandbox`."""
    package = target_dir / "sandbox"
    package.mkdir(parents=True, exist_ok=True)
    for source in _sources():
        target = package / source.relative_to(SOURCE)
        target.parent.mkdir(exist_ok=True)
        _copy(source, target, 0o644)
    for name in LAUNCHERS:
        _copy(SOURCE / name, target_dir / name, 0o755)


def copy_run_script(target: Path) -> None:
    """Put the jobs' executable at `target`."""
    _copy(RUN_SCRIPT, target, 0o755)


def _sources() -> list[Path]:
    return sorted([*SOURCE.rglob("*.py"), SOURCE / "exit_codes.csv"])


def _archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for source in _sources():
            data = source.read_bytes()
            entry = tarfile.TarInfo(f"sandbox/{source.relative_to(SOURCE).as_posix()}")
            entry.size, entry.mtime, entry.mode = len(data), MTIME, 0o644
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _copy(source: Path, target: Path, mode: int) -> None:
    shutil.copyfile(source, target)
    target.chmod(mode)
