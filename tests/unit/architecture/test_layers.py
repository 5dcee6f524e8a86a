"""Layers and limits of the source tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = [
    "chains_app", "cms", "condor", "console", "dags_app", "lab", "outputs_app", "requests_app", "rootfiles",
    "sandbox", "sites_app", "wms2_project",
]  # fmt: skip


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    tool = Path(sys.executable).parent / argv[0]
    return subprocess.run([tool, *argv[1:]], cwd=ROOT, capture_output=True, text=True, check=False)


def test_layers_point_down_and_pure_modules_stay_pure(tmp_path: Path) -> None:
    done = run("lint-imports", "--cache-dir", str(tmp_path))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_ruff_finds_nothing(tmp_path: Path) -> None:
    done = run("ruff", "check", "--no-cache", "--output-format", "concise", ".")
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_outgrows_its_one_purpose(package: str) -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in (ROOT / package).rglob("*.py")
        if "migrations" not in path.parts and (lines := len(path.read_text().splitlines())) > 400
    }
    assert long == {}


def test_the_top_level_has_the_folders_in_the_readme() -> None:
    names = {path.name for path in ROOT.iterdir()}
    needed = {
        "wms2_project", "requests_app", "dags_app", "outputs_app", "sites_app", "condor", "sandbox", "cms",
        "console", "lab", "manage.py", "requirements.txt", "docker-compose.yml", "tests", "README.md", "docs",
        "wms2", "rootfiles",
    }  # fmt: skip
    assert needed <= names
