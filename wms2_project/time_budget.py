"""Time budgets of long clean-ups, which pause as long as they work."""

from __future__ import annotations

import time


class TimeBudget:
    """Limits a loop of batches: it ends after so many seconds, and pauses between batches.

    A pause lasts as long as the batch before it, so that clean-ups take at most half of what the database
    can do.
    """

    def __init__(self, *, seconds: float, rest: float = 1.0) -> None:
        self._ends = time.monotonic() + seconds
        self._rest = rest
        self._began: float | None = None

    def goes_on(self) -> bool:
        """Pause, and return whether there is time for another batch. The first is always granted."""
        now = time.monotonic()
        if self._began is not None:
            time.sleep(max(0.0, min((now - self._began) * self._rest, self._ends - now)))
            if time.monotonic() >= self._ends:
                return False
        self._began = time.monotonic()
        return True
