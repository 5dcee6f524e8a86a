"""Limits that POST sets for itself: memory, CPU time and wall time.

The limits of what is read keep POST far below them. These limits stop unforeseen cases: up to twenty POSTs
run at once on a host that serves every request.
"""

from __future__ import annotations

import os
import resource
import signal
from contextlib import suppress
from pathlib import Path
from types import FrameType

MEMORY_BYTES = 256 * 1024 * 1024
PER_PLANNED_BYTE = 24  # memory per byte of the plan, which may be large, when parsed
MOST_MEMORY_BYTES = 2 * 1024 * 1024 * 1024
CPU_SEC = 60
WALL_SEC = 300


class TooCostly(BaseException):
    """POST used more CPU time than any valid file takes. Not an Exception, so that no handler hides it."""


class OutOfTime(BaseException):
    """POST waited too long, most likely for a disk."""


def limit_self(plan: Path) -> None:
    """Limit this process; `plan` is the largest file of WMS2 that it reads."""
    signal.signal(signal.SIGXCPU, _on_cpu)
    signal.signal(signal.SIGALRM, _on_alarm)
    signal.alarm(WALL_SEC)
    size = 0
    with suppress(OSError):
        size = os.stat(plan).st_size
    _lower(resource.RLIMIT_DATA, min(MEMORY_BYTES + PER_PLANNED_BYTE * size, MOST_MEMORY_BYTES))
    _lower(resource.RLIMIT_CPU, CPU_SEC)


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _on_cpu(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)  # it is repeated every second
    raise TooCostly(f"more than {CPU_SEC} s of CPU time")


def _on_alarm(_number: int, _frame: FrameType | None) -> None:
    raise OutOfTime(f"POST did not finish within {WALL_SEC} s")
