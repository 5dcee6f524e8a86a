"""Builds the sandbox: a tarball for worker nodes, and a folder of scripts for DAGMan.

The tarball's bytes depend on the sources alone, so that planning the same work twice writes the same files.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import json
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

from sandbox.atomic import replacing
from sandbox.registry import PLUGINS_FILE

SOURCE = Path(__file__).parent
ROOTFILES = SOURCE.parent / "rootfiles"
RUN_SCRIPT = SOURCE / "run.sh"
DATA = ("exit_codes.csv", "cmssw/cmsrun.sh")
LAUNCHERS = ("post.sh", "elect_site.sh", "pre.sh", "landing.sh")
MTIME = 315_532_800  # 1980-01-01, the oldest date every archive tool accepts


def build_sandbox(target: Path, *, plugins: Sequence[str] = ()) -> str:
    """Write the tarball of the packages that jobs run and return its SHA-256."""
    files = {**_package(ROOTFILES, "rootfiles"), **_files(plugins)}
    data = gzip.compress(_archive(files), compresslevel=9, mtime=0)
    with replacing(target) as handle:
        handle.write(data)
    return hashlib.sha256(data).hexdigest()


def copy_scripts(target_dir: Path, *, plugins: Sequence[str] = ()) -> None:
    """Put the launchers into `target_dir` and the packages they start beside them."""
    for name, data in _files(plugins).items():
        path = target_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o644)
    for name in LAUNCHERS:
        _copy(SOURCE / name, target_dir / name, 0o755)


def copy_run_script(target: Path) -> None:
    """Put the jobs' executable at `target`."""
    _copy(RUN_SCRIPT, target, 0o755)


def _files(plugins: Sequence[str]) -> dict[str, bytes]:
    """Return the sandbox and its plugins, by path."""
    files = _package(SOURCE, "sandbox")
    for path in DATA:
        files[f"sandbox/{path}"] = (SOURCE / path).read_bytes()
    for name in plugins:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise ImportError(f"{name} is not a package")
        files.update(_package(Path(spec.submodule_search_locations[0]), name.replace(".", "/")))
    if plugins:
        files[f"sandbox/{PLUGINS_FILE.name}"] = json.dumps(list(plugins)).encode("ascii")
    return files


def _package(source: Path, name: str) -> dict[str, bytes]:
    paths = source.rglob("*.py")
    return {f"{name}/{path.relative_to(source).as_posix()}": path.read_bytes() for path in paths}


def _archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(data), MTIME, 0o644
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _copy(source: Path, target: Path, mode: int) -> None:
    shutil.copyfile(source, target)
    target.chmod(mode)
