"""The registry of mutations: defects that are put back one at a time, and the schedules that show them."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Fault = tuple[str, int, float, str]  # kind, at, amount, where
MUTATIONS: dict[str, Mutation] = {}
QUIET: dict[str, Any] = {
    "failing": 0.0,
    "bad_site": False,
    "evicted": 0.0,
    "pilot": False,
    "transfers": False,
}
READS: dict[str, Any] = {**QUIET, "generates": False, "files": 4, "events": 100}
COPIES: dict[str, Any] = {**READS, "files": 1, "transfers": True}
GENERATES: dict[str, Any] = {**QUIET, "generates": True, "events": 100}


@dataclass(frozen=True, slots=True)
class Mutation:
    """A defect and the schedule that shows it."""

    apply: Callable[[], None]
    why: str
    faults: tuple[Fault, ...]
    changes: dict[str, Any] = field(default_factory=lambda: READS)
    seed: int = 1

    @property
    def patch(self) -> str:
        """Import path of the function for a worker."""
        return f"{self.apply.__module__}:{self.apply.__name__}"


def mutation(*faults: Fault, **given: Any) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register the function as a mutation with the schedule that shows it."""

    def register(apply: Callable[[], None]) -> Callable[[], None]:
        MUTATIONS[apply.__name__] = Mutation(apply, " ".join((apply.__doc__ or "").split()), faults, **given)
        return apply

    return register


def edit(module: Any, function: str, old: str, new: str) -> None:
    """Replace a part of the function's source."""
    source = textwrap.dedent(inspect.getsource(getattr(module, function)))
    if old not in source:
        raise AssertionError(f"{function} has no {old!r} any more")
    exec(compile(source.replace(old, new), module.__file__, "exec"), module.__dict__)  # noqa: S102


def always_rescue() -> None:
    """Let every DAG with failures be rescued, however many of its groups have failed."""
    from django.conf import settings

    settings.ERROR_HOLD_THRESHOLD = 1.1


def unlock(module: Any, name: str, *, value: object = None) -> None:
    @contextmanager
    def unlocked(*_args: object) -> Iterator[object]:
        yield value

    setattr(module, name, unlocked)
