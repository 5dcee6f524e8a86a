"""Choose the schedd of a DAG and share a schedd's DAGMan slots among DAGs. Pure.

A schedd limits how many DAGMans run at a time, outer and inner together. If outer DAGMans took every slot,
no group could run and none of them would ever end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OUTER_AND_ONE_GROUP = 2  # the fewest slots a DAG needs to make progress


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedd that accepts DAGs and answers; `allowed` is its limit of DAGMans, None if it has none."""

    name: str
    allowed: int | None
    running: int  # DAGMans, outer and inner
    waiting: int  # DAGs sent there whose DAGMan does not run yet
    dags: int  # live DAGs, the waiting ones included


def decide_schedd(candidates: Sequence[Candidate]) -> str | None:
    """Return the schedd with most free slots, then fewest DAGs, then by name; None if all are full."""
    usable = [one for one in candidates if has_room(one)]
    best = min(usable, key=lambda one: (-free_slots(one), one.dags, one.name), default=None)
    return best.name if best is not None else None


def has_room(one: Candidate) -> bool:
    """Return whether one more DAG can run there with one of its groups, and every other DAG as well."""
    return free_slots(one) >= OUTER_AND_ONE_GROUP


def free_slots(one: Candidate) -> float:
    """Return the slots that neither run a DAGMan nor are needed by a DAG for itself and one group."""
    if one.allowed is None:
        return float("inf")
    taken = one.running + OUTER_AND_ONE_GROUP * one.waiting
    return one.allowed - max(taken, OUTER_AND_ONE_GROUP * one.dags)


def share_groups(*, allowed: int | None, dags: int) -> int | None:
    """Return how many groups each of the DAGs may run at a time, so that all together fit; None: no limit."""
    if allowed is None or not dags:
        return None
    return max(1, (allowed - dags) // dags)
