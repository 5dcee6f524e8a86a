"""Runs a function in a forked process: as isolated as a program of its own, without the start of Python."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

CRASHED = 70


def run_forked(function: Callable[[], int], *, directory: Path, environment: Mapping[str, str]) -> int:
    """Run the function with this directory and environment; return the exit status of the process."""
    pid = os.fork()
    if pid == 0:
        code = CRASHED
        try:
            os.chdir(directory)
            os.environ.clear()
            os.environ.update(environment)
            code = function()
        except BaseException:  # noqa: BLE001 - a child must never return into the tests
            traceback.print_exc()
        finally:
            sys.stderr.flush()  # pytest's, which shows it with a failure
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
