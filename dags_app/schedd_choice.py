"""Choice of the schedd for a DAG. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OUTER_AND_ONE_GROUP = 2  # with fewer free slots a DAG would block itself


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedd that takes DAGs and answers; `room`: how many DAGMans may still start, None: no limit."""

    name: str
    room: int | None
    waiting: int  # DAGs sent there whose DAGMans do not run yet
    dags: int


def decide_schedd(candidates: Sequence[Candidate]) -> str | None:
    """Return the schedd with most free slots, then fewest DAGs, then the first name; None if all are full."""
    usable = [one for one in candidates if has_room(one)]
    best = min(usable, key=lambda one: (-_free(one), one.dags, one.name), default=None)
    return best.name if best is not None else None


def has_room(one: Candidate) -> bool:
    """Return whether one more DAG can run there together with one of its groups."""
    return _free(one) >= OUTER_AND_ONE_GROUP


def _free(one: Candidate) -> float:
    return float("inf") if one.room is None else one.room - one.waiting
