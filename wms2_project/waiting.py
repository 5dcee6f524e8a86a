"""What waits at a gate is made due when something happens that may open it.

The layers below say what may have opened; the layer that owns the waiting rows registers how they are made
due when its application starts. Nothing here knows the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

SITES, STORAGE, SCHEDDS, DATA = "sites", "storage", "schedds", "data"
Waker = Callable[[Collection[str]], int]
_wakers: list[Waker] = []


def register(waker: Waker) -> None:
    """Call this with the names of gates that may have opened."""
    if waker not in _wakers:
        _wakers.append(waker)


def wake_waiting(*gates: str) -> int:
    """Make due now what waits at one of these gates, in the caller's transaction; return how many rows."""
    return sum(waker(gates) for waker in _wakers)
