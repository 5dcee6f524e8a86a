"""The shared state of WMS2's processes in Redis, simulated in memory and virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from lab.simulator.clock import VirtualClock
from wms2_project import redis_state


class SharedState:
    """A Redis client with the two commands that simulations need. Others fail as if Redis were down."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._values: dict[str, tuple[str, float]] = {}

    def get(self, key: str) -> str | None:
        value, until = self._values.get(key, ("", 0.0))
        return value if self.clock.now < until else None

    def set(self, key: str, value: object, *, nx: bool = False, ex: float = float("inf")) -> bool | None:
        if nx and self.get(key) is not None:
            return None
        self._values[key] = (str(value), self.clock.now + ex)
        return True

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Replace Redis by it in WMS2."""

        def ask(question: Callable[[Any], Any], *, otherwise: Any) -> Any:
            try:
                return question(self)
            except AttributeError:
                return otherwise

        with patch.object(redis_state, "ask", ask):
            yield
