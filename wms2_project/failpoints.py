"""Named places where the lab lets a process die, to prove that it may die anywhere.

`WMS2_FAILPOINT=name` kills this process with SIGKILL at its first pass of that place, `name:3` at the third.
Outside the lab the variable is not even read.
"""

from __future__ import annotations

import os
import signal

_passes: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Die here if the lab says so. No handler, no `finally`, no message: as a power cut would."""
    if os.environ.get("WMS2_LAB") != "1":
        return
    wanted, _, nth = os.environ.get("WMS2_FAILPOINT", "").partition(":")
    if wanted != name:
        return
    _passes[name] = _passes.get(name, 0) + 1
    if _passes[name] >= int(nth or 1):
        os.kill(os.getpid(), signal.SIGKILL)
