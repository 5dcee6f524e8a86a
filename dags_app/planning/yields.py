"""What a generator's filter lets through: how many events the next round must make, and when to ask. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

POOR = 0.1  # of what was expected: below it the request, not luck, is at fault
LUCK = 1e-6  # rounds that leave nothing with a greater chance than this prove nothing


@dataclass(frozen=True, slots=True)
class RoundYield:
    """What the collected groups of one round made; of a pilot, if it is no production."""

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
    """The fraction of events that pass, for the round that follows these.

    A first production round trusts the request: a pilot is too small to know better. Later ones trust
    what was measured; while nothing at all has passed, whoever lets the request go on trusts it still.
    """
    written = sum(one.written for one in rounds)
    if not written or not any(one.production for one in rounds):
        return declared
    return min(1.0, written / sum(one.generated for one in rounds))


def find_poor_yield(rounds: Sequence[RoundYield], *, declared: float) -> PoorYield | None:
    """What the newest rounds prove against the request, if anything.

    Each round is held to what its own plan believed, so that a release after a poor one is not undone by
    the next that merely confirms it. Rounds too small to prove anything are taken together.
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
