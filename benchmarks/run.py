"""One run of benchmarks: sizes, repetitions, resources, and shared objects."""

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
    """The benchmark cannot run here. The message is the reason."""


@dataclass(slots=True)
class Run:
    """Input of a benchmark: sizes, repetitions, resources, and objects shared with others."""

    places: Places
    quick: bool = False
    redis_was_empty: bool = False  # when the run began
    versions: dict[str, str] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _shared: dict[str, Any] = field(default_factory=dict)

    def size(self, full: int, quick: int) -> int:
        """Return the first number in a measurement, the second in a smoke test."""
        return quick if self.quick else full

    @property
    def repeat(self) -> int:
        """Return the number of repetitions, fewer for slow samples."""
        return QUICK_REPEAT if self.quick else REPEAT

    def shared(self, name: str, opened: Callable[[], AbstractContextManager[T]]) -> T:
        """Return a shared object: opened at the first call, closed after the last benchmark."""
        if name not in self._shared:
            self._shared[name] = self._stack.enter_context(opened())
        value: T = self._shared[name]
        return value

    def close(self) -> None:
        """Close the shared objects in reverse order."""
        self._shared.clear()
        self._stack.close()
