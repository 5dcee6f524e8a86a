"""B28: start of the command line client, up to its first call."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from benchmarks.harness import Measured, alternate
from benchmarks.run import Run

CLIENT = Path(__file__).resolve().parents[1] / "cli"
CLOSED = "http://127.0.0.1:1"  # nothing listens there: the call ends at once
REPEAT = 15  # starts of a process are short


def start_client(run: Run) -> Measured:
    """B28. CPU time, because a start is too short to be timed beside other work."""
    pairs = alternate(
        lambda: _cpu_seconds("-P", "-m", "wms2_cli", "list"),
        lambda: _cpu_seconds("-c", "pass"),
        repeat=run.size(REPEAT, 2),
    )
    return Measured(pairs.ratio, pairs.as_samples(), spread=pairs.spread)


def _cpu_seconds(*arguments: str) -> float:
    """Return the user and system time of one Python process."""
    command = [sys.executable, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(CLIENT), "WMS2_URL": CLOSED, "WMS2_TOKEN": "none"}
    silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    child = os.posix_spawn(sys.executable, command, environment, file_actions=silent)
    _, _, used = os.wait4(child, 0)
    return used.ru_utime + used.ru_stime
