"""All shipped code passes strict type checks. In this tier because the checker loads the settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = [
    "chains_app", "cli/wms2_cli", "cms", "condor", "console", "dags_app", "lab", "outputs_app",
    "requests_app", "rootfiles", "sandbox", "sites_app", "wms2_project",
]  # fmt: skip


def test_mypy_finds_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "mypy", "--cache-dir", str(tmp_path), *PACKAGES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
