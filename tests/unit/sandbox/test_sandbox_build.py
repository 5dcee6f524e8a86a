"""The sandbox is self-contained: standard library only, old syntax, deterministic bytes."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from sandbox.build import (
    DATA,
    LAUNCHERS,
    ROOTFILES,
    RUN_SCRIPT,
    SOURCE,
    build_sandbox,
    copy_run_script,
    copy_scripts,
)

TOY = SOURCE.parent / "lab" / "toy"
MODULES = sorted(SOURCE.rglob("*.py"))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def imported(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("path", [*MODULES, *sorted(TOY.glob("*.py"))], ids=module_name)
def test_a_module_needs_only_the_standard_library_and_python_3_9(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))

    own = {"sandbox", "lab"} if path.is_relative_to(TOY) else {"sandbox"}
    assert imported(tree) <= {*sys.stdlib_module_names, *own}
    newer = {"UTC", "StrEnum", "Self", "TaskGroup", "ExceptionGroup", "pairwise", "NotRequired"}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    assert not newer & names
    assert not {"slots", "strict", "kw_only"} & keywords


def test_the_tarball_depends_only_on_the_sources(tmp_path: Path) -> None:
    first = build_sandbox(tmp_path / "one.tar.gz")
    second = build_sandbox(tmp_path / "two.tar.gz")

    # Bytes 4–7 of a gzip file are its creation time, unless suppressed.
    assert (tmp_path / "one.tar.gz").read_bytes()[4:8] == bytes(4)
    assert first == second == hashlib.sha256((tmp_path / "two.tar.gz").read_bytes()).hexdigest()
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        members = archive.getmembers()
    files = [*MODULES, *ROOTFILES.rglob("*.py"), *(SOURCE / path for path in DATA)]
    assert [one.name for one in members] == sorted(
        path.relative_to(SOURCE.parent).as_posix() for path in files
    )
    assert {(one.uid, one.gid, one.mode, one.mtime) for one in members} == {(0, 0, 0o644, 315_532_800)}


def test_every_module_is_imported_from_the_tarball_alone(tmp_path: Path) -> None:
    build_sandbox(tmp_path / "sandbox.tar.gz")
    subprocess.run(["tar", "-xzf", "sandbox.tar.gz"], cwd=tmp_path, check=True)
    lines = "; ".join(f"import {module_name(path)}" for path in MODULES)
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", lines], cwd=tmp_path, capture_output=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")


def test_the_scripts_are_executable_shell(tmp_path: Path) -> None:
    copy_scripts(tmp_path / "scripts")
    copy_scripts(tmp_path / "scripts")
    copy_run_script(tmp_path / "run.sh")

    for path in [tmp_path / "run.sh", *(tmp_path / "scripts" / name for name in LAUNCHERS)]:
        assert path.stat().st_mode & 0o777 == 0o755
        assert subprocess.run(["/bin/sh", "-n", str(path)], check=False).returncode == 0
    assert (tmp_path / "run.sh").read_bytes() == RUN_SCRIPT.read_bytes()


def kinds_in(directory: Path) -> list[str]:
    """Return the payload kinds of the code in this directory, read in a separate process."""
    program = (
        "from sandbox.registry import load_registry, shipped_plugins;"
        " print(*sorted(load_registry(shipped_plugins()).kinds))"
    )
    command = [sys.executable, "-S", "-E", "-c", program]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(("plugins", "has_toy"), [((), False), (("lab.toy",), True)])
def test_a_job_has_only_the_payload_kinds_of_the_plugins_in_its_tarball(
    tmp_path: Path, plugins: tuple[str, ...], has_toy: bool
) -> None:
    build_sandbox(tmp_path / "sandbox.tar.gz", plugins=plugins)
    subprocess.run(["tar", "-xzf", "sandbox.tar.gz"], cwd=tmp_path, check=True)
    copy_scripts(tmp_path / "scripts", plugins=plugins)

    for place in (tmp_path, tmp_path / "scripts"):
        assert ("toy" in kinds_in(place)) is has_toy
        assert {"command", "root-demo"} <= set(kinds_in(place))


def test_a_plugin_that_is_no_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match=r"lab\.nothing"):
        build_sandbox(tmp_path / "sandbox.tar.gz", plugins=("lab.nothing",))
