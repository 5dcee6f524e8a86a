"""Named points at which tests let a process die, to prove that it may die there.

`WMS2_FAILPOINT=name` kills this process with SIGKILL when it first reaches that point, `name:3` the third
time. The variable is read in the lab only. A simulation observes the points with `observe_failpoints`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_passes: dict[str, int] = {}


def _kill_if_requested(name: str) -> None:
    """Kill this process if the lab requests it, without handlers, `finally` blocks or messages."""
    if os.environ.get("WMS2_LAB") != "1":
        return
    wanted, _, nth = os.environ.get("WMS2_FAILPOINT", "").partition(":")
    if wanted != name:
        return
    _passes[name] = _passes.get(name, 0) + 1
    if _passes[name] >= int(nth or 1):
        os.kill(os.getpid(), signal.SIGKILL)


_reached: Callable[[str], None] = _kill_if_requested


def failpoint(name: str) -> None:
    """Mark a point between two effects; the process may die here."""
    _reached(name)


@contextmanager
def observe_failpoints(reached: Callable[[str], None]) -> Iterator[None]:
    """Call `reached` with the name of each point that is passed, until the block ends."""
    global _reached
    before, _reached = _reached, reached
    try:
        yield
    finally:
        _reached = before
