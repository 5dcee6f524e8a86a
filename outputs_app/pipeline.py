"""The output pipeline: for each status of a block the next step, its urgency and the withdrawal. Pure.

A block moves forward, protection before release, until it is announced. It moves back only to wait for a
copy that was lost before its source was released. It can be withdrawn from any status, which undoes all
effects.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from outputs_app.states import BlockStatus
from wms2_project.tables import check_complete


class Step(StrEnum):
    """One effect in an outside service; checking has none, and announcing is only recorded: DBS has a status
    per dataset.
    """

    CHECK = "check"
    REGISTER = "register"
    PROTECT = "protect"
    REQUEST_TRANSFERS = "request_transfers"
    POLL_TRANSFERS = "poll_transfers"
    RELEASE_SOURCE = "release_source"
    ANNOUNCE = "announce"
    UNDO = "undo"


class Tier(IntEnum):
    """Order of work when there is more than workers can do: safety, then progress, then polling."""

    PROTECT = 0
    REQUEST = 1
    POLL = 2


@dataclass(frozen=True, slots=True)
class Stage:
    """Processing of blocks in one status. A block of a status without a step does not change."""

    step: Step | None = None
    tier: Tier | None = None
    leads_to: tuple[BlockStatus, ...] = ()
    undo: BlockStatus | None = BlockStatus.INVALIDATING  # the status of a block that is withdrawn


B = BlockStatus

PIPELINE: dict[BlockStatus, Stage] = {
    B.PENDING: Stage(Step.CHECK, Tier.PROTECT, (B.CHECKED, B.FAILED)),
    B.CHECKED: Stage(Step.REGISTER, Tier.PROTECT, (B.DBS_REGISTERED,)),
    B.DBS_REGISTERED: Stage(Step.PROTECT, Tier.PROTECT, (B.SOURCE_PROTECTED,)),
    # without a destination the block stays protected at its source and is announced there
    B.SOURCE_PROTECTED: Stage(Step.REQUEST_TRANSFERS, Tier.REQUEST, (B.TRANSFERS_REQUESTED, B.ANNOUNCED)),
    B.TRANSFERS_REQUESTED: Stage(Step.POLL_TRANSFERS, Tier.POLL, (B.TRANSFERRING, B.TRANSFERRED)),
    B.TRANSFERRING: Stage(Step.POLL_TRANSFERS, Tier.POLL, (B.TRANSFERRED,)),
    # back if a copy was lost before the source is released
    B.TRANSFERRED: Stage(Step.RELEASE_SOURCE, Tier.REQUEST, (B.SOURCE_RELEASED, B.TRANSFERRING)),
    B.SOURCE_RELEASED: Stage(Step.ANNOUNCE, Tier.REQUEST, (B.ANNOUNCED,)),
    B.ANNOUNCED: Stage(),
    # a file is not what its job reported; a person has it checked again
    B.FAILED: Stage(leads_to=(B.PENDING,)),
    B.INVALIDATING: Stage(Step.UNDO, Tier.REQUEST, (B.INVALIDATED,), undo=None),
    B.INVALIDATED: Stage(undo=None),
}
check_complete("PIPELINE", PIPELINE, BlockStatus)

TRANSITIONS: dict[BlockStatus, frozenset[BlockStatus]] = {
    status: frozenset({*stage.leads_to, *([stage.undo] if stage.undo else [])})
    for status, stage in PIPELINE.items()
}
MOVING = frozenset(status for status, stage in PIPELINE.items() if stage.step)
# While WMS2's limit of calls to a service is used up: how long a worker waits, and when the step is retried
RATE_LIMIT_PATIENCE_SEC = {Tier.PROTECT: 10.0, Tier.REQUEST: 2.0, Tier.POLL: 0.0}
RATE_LIMIT_RETRY_SEC = {Tier.PROTECT: 1.0, Tier.REQUEST: 5.0, Tier.POLL: 30.0}


def statuses_of(tier: Tier) -> list[str]:
    """Return the statuses whose next step has this tier."""
    return sorted(status.value for status, stage in PIPELINE.items() if stage.tier is tier)
