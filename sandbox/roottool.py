"""Runs `rootfiles`, which needs numpy and uproot, in a process of a Python that has them.

It runs as contained as a payload does: in a processing job, a payload may have changed its files before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sandbox.context import Context
from sandbox.failure import EXECUTABLE_MISSING, OUT_OF_MEMORY, UNCAUGHT, JobFailure
from sandbox.jsonfile import Fields, ManifestError, open_regular, read_json, write_json
from sandbox.tree import Payload

PYTHON = "WMS2_ROOT_PYTHON"
PACKAGES = Path(__file__).resolve().parents[1]  # where `rootfiles` is, beside `sandbox`
MAX_SEC = 12 * 3600.0  # the wall time of a merge job
_HAS_UPROOT = (
    "import importlib.util as u, sys; sys.exit(not (u.find_spec('uproot') and u.find_spec('numpy')))"
)
# Its standard output and error go into the log file, the end of which explains a crash.
_START = (
    "import os, sys; log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_TRUNC); os.dup2(log, 1);"
    " os.dup2(log, 2); sys.path.insert(0, sys.argv[1]); from rootfiles.__main__ import main;"
    " sys.exit(main(sys.argv[3:]))"
)
_CHECK_SEC = 120
TAIL_BYTES = 1000


class RootToolError(Exception):
    """Error that `rootfiles` reports: its kind and the file it concerns."""

    def __init__(self, kind: str, message: str, source: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.source = source


def run_rootfiles(context: Context, action: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Run one action and return its result.

    Raises RootToolError for an error that it names, JobFailure if it cannot run or ends without a result.
    """
    python = find_python()
    if not python:
        raise JobFailure(
            EXECUTABLE_MISSING,
            f"no Python with uproot on this node; install it or name one in {PYTHON}",
        )
    task_file, result_file = (context.work / f"{action}.{name}.json" for name in ("task", "result"))
    log_file = context.work / f"{action}.log"
    write_json(task_file, dict(task))
    result_file.unlink(missing_ok=True)
    words = [python, "-I", "-B", "-c", _START, str(PACKAGES), str(log_file), action]
    program = Payload([*words, str(task_file), str(result_file)], context.work, os.environ)
    deadline = time.monotonic() + MAX_SEC if context.deadline is None else context.deadline
    try:
        status = context.tree.run_own(program, deadline)
    except OSError as error:
        raise JobFailure(EXECUTABLE_MISSING, f"{python}: {error.strerror}") from error
    if status is None:
        raise context.out_of_time(f"rootfiles {action}")
    return _result(action, result_file, log_file, status)


@lru_cache(maxsize=1)
def find_python() -> str:
    """Return a Python that has uproot: $WMS2_ROOT_PYTHON, this one, or python3; '' if there is none."""
    for python in (os.environ.get(PYTHON, ""), sys.executable, "python3"):
        if python and _has_uproot(python):
            return python
    return ""


def _has_uproot(python: str) -> bool:
    try:
        done = subprocess.run(
            [python, "-I", "-c", _HAS_UPROOT],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_CHECK_SEC, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _result(action: str, result_file: Path, log_file: Path, status: int) -> dict[str, Any]:
    try:
        fields = Fields(read_json(result_file, claim=True), result_file.name)
        if fields.raw.get("error") is None:
            return fields.raw
        error = fields.child("error")
        kind, message = error.text("kind"), error.text("message")
        if kind == "out-of-memory":
            raise JobFailure(OUT_OF_MEMORY, f"bad_alloc: rootfiles {action}: {message}")
        raise RootToolError(kind, message, error.text("source"))
    except ManifestError as error:
        tail = log_tail(log_file)
        shown = f"signal {-status}" if status < 0 else f"status {status}"
        code = 128 - status if status < 0 else UNCAUGHT
        raise JobFailure(code, f"rootfiles {action} ended with {shown} and no result: {tail}") from error


def log_tail(path: Path) -> str:
    """Return the end of a program's log."""
    try:
        with open_regular(path) as handle:
            handle.seek(max(0, os.fstat(handle.fileno()).st_size - TAIL_BYTES))
            return handle.read(TAIL_BYTES).decode("utf-8", "replace").strip()
    except (OSError, ManifestError):
        return "it left no log"
