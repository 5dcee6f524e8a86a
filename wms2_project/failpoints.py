"""Named points at which tests kill a process, to prove that it may die there.

`WMS2_FAILPOINT=name` kills this process with SIGKILL when it first reaches that point, `name:3` the third
time. The variable is read in the lab only.
"""

from __future__ import annotations

import os
import signal

_passes: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Kill this process here if the lab requests it, without handlers, `finally` blocks or messages."""
    if os.environ.get("WMS2_LAB") != "1":
        return
    wanted, _, nth = os.environ.get("WMS2_FAILPOINT", "").partition(":")
    if wanted != name:
        return
    _passes[name] = _passes.get(name, 0) + 1
    if _passes[name] >= int(nth or 1):
        os.kill(os.getpid(), signal.SIGKILL)
