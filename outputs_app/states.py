"""The states of an output block and of an output dataset. Pure data.

A block walks forward only; protection always comes before release.
"""

from __future__ import annotations

from enum import StrEnum


class BlockStatus(StrEnum):
    """How far a block of merged files is on its way to its users."""

    PENDING = "pending"
    DBS_REGISTERED = "dbs_registered"
    SOURCE_PROTECTED = "source_protected"
    TRANSFERS_REQUESTED = "transfers_requested"
    TRANSFERRING = "transferring"
    TRANSFERRED = "transferred"
    SOURCE_RELEASED = "source_released"
    ANNOUNCED = "announced"
    INVALIDATED = "invalidated"
    FAILED = "failed"


B = BlockStatus

_FORWARD: dict[BlockStatus, frozenset[BlockStatus]] = {
    B.PENDING: frozenset({B.DBS_REGISTERED}),
    B.DBS_REGISTERED: frozenset({B.SOURCE_PROTECTED}),
    # no destination: the block stays at its source, protected, and is announced there
    B.SOURCE_PROTECTED: frozenset({B.TRANSFERS_REQUESTED, B.ANNOUNCED}),
    B.TRANSFERS_REQUESTED: frozenset({B.TRANSFERRING, B.TRANSFERRED}),
    B.TRANSFERRING: frozenset({B.TRANSFERRED}),
    B.TRANSFERRED: frozenset({B.SOURCE_RELEASED}),
    B.SOURCE_RELEASED: frozenset({B.ANNOUNCED}),
    B.ANNOUNCED: frozenset(),
    B.FAILED: frozenset(),
    B.INVALIDATED: frozenset(),
}
TRANSITIONS: dict[BlockStatus, frozenset[BlockStatus]] = {
    state: after
    | (frozenset({B.INVALIDATED}) if state is not B.INVALIDATED else frozenset())
    | (frozenset({B.FAILED}) if state not in (B.ANNOUNCED, B.FAILED, B.INVALIDATED) else frozenset())
    for state, after in _FORWARD.items()
}
TERMINAL = frozenset({B.ANNOUNCED, B.INVALIDATED, B.FAILED})
MOVING = frozenset(B) - TERMINAL


class DatasetStatus(StrEnum):
    """Is this version of a dataset the one to use?"""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    INVALIDATED = "invalidated"


class RuleKind(StrEnum):
    """What a Rucio rule is for."""

    SOURCE = "source"
    TRANSFER = "transfer"
