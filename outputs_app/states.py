"""The states of an output block and of an output dataset. Pure data.

A block walks forward, protection before release, until it is announced; it only steps back to wait for a
copy that was lost before its source was released. `invalidating` is the way back out.
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
    INVALIDATING = "invalidating"
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
    # a copy lost before the source is released is waited for again
    B.TRANSFERRED: frozenset({B.SOURCE_RELEASED, B.TRANSFERRING}),
    B.SOURCE_RELEASED: frozenset({B.ANNOUNCED}),
    B.ANNOUNCED: frozenset(),
    B.FAILED: frozenset(),
}
# From anywhere a block may be taken back; only one still on its way can fail.
TRANSITIONS: dict[BlockStatus, frozenset[BlockStatus]] = {
    **{
        state: after | {B.INVALIDATING} | ({B.FAILED} if state not in (B.ANNOUNCED, B.FAILED) else set())
        for state, after in _FORWARD.items()
    },
    B.INVALIDATING: frozenset({B.INVALIDATED}),
    B.INVALIDATED: frozenset(),
}
TERMINAL = frozenset({B.ANNOUNCED, B.INVALIDATED, B.FAILED})
MOVING = frozenset(B) - TERMINAL


class DatasetStatus(StrEnum):
    """Is this version of a dataset the one to use?"""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    INVALIDATED = "invalidated"


# What DBS should call a dataset of this status once it is announced
ACCESS_TYPES: dict[DatasetStatus, str] = {
    DatasetStatus.ACTIVE: "VALID",
    DatasetStatus.SUPERSEDED: "DEPRECATED",
    DatasetStatus.INVALIDATED: "INVALID",
}


class RuleKind(StrEnum):
    """What a Rucio rule is for."""

    SOURCE = "source"
    TRANSFER = "transfer"
    TAPE = "tape"  # a copy on tape only: once it is OK the block is archived


COPIES = (RuleKind.TRANSFER, RuleKind.TAPE)
