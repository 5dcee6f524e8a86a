"""States of output blocks, datasets and rules. `pipeline.PIPELINE` defines how blocks move."""

from __future__ import annotations

from enum import StrEnum


class BlockStatus(StrEnum):
    """Progress of a block of merged files."""

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
    """Status of a version of a dataset."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    INVALIDATED = "invalidated"
    REMOVED = "removed"  # its content is no longer needed
    RELEASED = "released"  # WMS2's rules are deleted, DBS is unchanged


WITHDRAWN = frozenset({DatasetStatus.INVALIDATED, DatasetStatus.REMOVED, DatasetStatus.RELEASED})


# Access type in DBS of an announced dataset
ACCESS_TYPES: dict[DatasetStatus, str] = {
    DatasetStatus.ACTIVE: "VALID",
    DatasetStatus.SUPERSEDED: "DEPRECATED",
    DatasetStatus.INVALIDATED: "INVALID",
    DatasetStatus.REMOVED: "DELETED",
    DatasetStatus.RELEASED: "VALID",
}


class RuleKind(StrEnum):
    """Purpose of a Rucio rule."""

    SOURCE = "source"
    TRANSFER = "transfer"
    TAPE = "tape"  # only copies on tape; once OK, the block is archived


COPIES = (RuleKind.TRANSFER, RuleKind.TAPE)
