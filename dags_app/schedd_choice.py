"""Which schedd a DAG goes to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OUTER_AND_ONE_GROUP = 2  # fewer free slots and a DAG would wait for itself


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedd that takes DAGs and answers; `room` is how many DAGMans may still start, None: no limit."""

    name: str
    room: int | None
    waiting: int  # DAGs sent there whose DAGMans do not run yet: they will take of the room
    dags: int


def decide_schedd(candidates: Sequence[Candidate]) -> str | None:
    """The one with most free slots, then with fewest DAGs, then the first by name; None if all are full."""
    usable = [one for one in candidates if has_room(one)]
    best = min(usable, key=lambda one: (-_free(one), one.dags, one.name), default=None)
    return best.name if best is not None else None


def has_room(one: Candidate) -> bool:
    """Return whether one more DAG can run there together with one of its groups."""
    return _free(one) >= OUTER_AND_ONE_GROUP


def _free(one: Candidate) -> float:
    return float("inf") if one.room is None else one.room - one.waiting
