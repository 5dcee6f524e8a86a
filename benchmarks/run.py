"""One run of benchmarks: how large, how often, where, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchmarks.places import Places

REPEAT = 5
QUICK_REPEAT = 2
T = TypeVar("T")


class NotRun(Exception):
    """The benchmark cannot run here; the message says why."""


@dataclass(slots=True)
class Run:
    """What a benchmark is given: how large to be, how often to repeat, where to work, what others opened."""

    places: Places
    quick: bool = False
    redis_was_empty: bool = False  # when the run began
    versions: dict[str, str] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _shared: dict[str, Any] = field(default_factory=dict)

    def size(self, full: int, quick: int) -> int:
        """How many, in a measurement or in a smoke test."""
        return quick if self.quick else full

    @property
    def repeat(self) -> int:
        """How often, unless it is slow."""
        return QUICK_REPEAT if self.quick else REPEAT

    def shared(self, name: str, opened: Callable[[], AbstractContextManager[T]]) -> T:
        """Something several benchmarks use: opened by the first, closed after the last."""
        if name not in self._shared:
            self._shared[name] = self._stack.enter_context(opened())
        value: T = self._shared[name]
        return value

    def close(self) -> None:
        """Close what is shared, the last first."""
        self._shared.clear()
        self._stack.close()
