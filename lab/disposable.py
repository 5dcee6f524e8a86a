"""State directories of single runs: removed after success, some kept after failures."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from lab.paths import Layout
from lab.state import is_locked

KEPT_RUNS = 3
YOUNG_SEC = 3600.0


def is_disposable(layout: Layout) -> bool:
    return os.environ.get("WMS2_DISPOSABLE") == "1" and layout.home.parent.name == "runs"


def discard(layout: Layout) -> None:
    """Remove the state of a successful run."""
    if is_disposable(layout):
        os.chdir("/")
        shutil.rmtree(layout.home, ignore_errors=True)


def discard_old_runs(layout: Layout, *, now: float | None = None) -> None:
    """Remove old runs, except the last failures and those that may be in use."""
    if not is_disposable(layout):
        return
    before = (time.time() if now is None else now) - YOUNG_SEC
    others = [home for home in layout.home.parent.iterdir() if home.is_dir() and home != layout.home]
    newest_first = sorted(others, key=lambda home: home.stat().st_mtime, reverse=True)
    for home in newest_first[KEPT_RUNS:]:
        if home.stat().st_mtime < before and not is_locked(Layout(home=home, app=home, venv=Path())):
            shutil.rmtree(home, ignore_errors=True)
