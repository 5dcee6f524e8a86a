"""The states of output blocks, output datasets and rules. `pipeline.PIPELINE` says how a block moves."""

from __future__ import annotations

from enum import StrEnum


class BlockStatus(StrEnum):
    """How far a block of merged files is on its way to its users."""

    PENDING = "pending"
    CHECKED = "checked"
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
