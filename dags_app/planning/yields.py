"""Yield of a generator's filter: events that the next round must generate, and when it is too low. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

POOR = 0.1  # fraction of the expected events below which the yield is too low
LUCK = 1e-6  # rounds are significant if the chance that no event passes is below this


@dataclass(frozen=True, slots=True)
class RoundYield:
    """Events of the collected groups of one round; `production` is False for pilots."""

    production: bool
    generated: int
    written: int


@dataclass(frozen=True, slots=True)
class PoorYield:
    """Newest rounds that together wrote far less than their plans expected."""

    rounds: int
    generated: int
    written: int
    expected: float


def believed_efficiency(rounds: Sequence[RoundYield], *, declared: float) -> float:
    """Return the expected fraction of events that pass, for the round that follows these.

    The first production round uses the request's value, because a pilot is too small. Later ones use the
    measured value, or the request's while no event has passed.
    """
    written = sum(one.written for one in rounds)
    if not written or not any(one.production for one in rounds):
        return declared
    return min(1.0, written / sum(one.generated for one in rounds))


def find_poor_yield(rounds: Sequence[RoundYield], *, declared: float) -> PoorYield | None:
    """Return the newest rounds if their yield is too low; None otherwise.

    Each round is compared with the efficiency its own plan used, so that a release after a poor round is
    not undone by the next one that confirms it. Rounds too small to be significant are combined.
    """
    generated = written = 0
    expected, chance_of_none = 0.0, 1.0
    for at in reversed(range(len(rounds))):
        efficiency = believed_efficiency(rounds[:at], declared=declared)
        generated += rounds[at].generated
        written += rounds[at].written
        expected += efficiency * rounds[at].generated
        chance_of_none *= (1 - efficiency) ** rounds[at].generated
        if chance_of_none < LUCK:
            poor = written < POOR * expected
            return PoorYield(len(rounds) - at, generated, written, expected) if poor else None
    return None
