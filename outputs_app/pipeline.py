"""The output pipeline, decided purely: what a block needs next, and how urgent it is."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from outputs_app.states import BlockStatus


class Step(StrEnum):
    """One effect in an outside service; announcing is only noted, DBS hears of whole datasets."""

    REGISTER = "register"
    PROTECT = "protect"
    REQUEST_TRANSFERS = "request_transfers"
    POLL_TRANSFERS = "poll_transfers"
    RELEASE_SOURCE = "release_source"
    ANNOUNCE = "announce"
    UNDO = "undo"


NEXT_STEP: dict[BlockStatus, Step] = {
    BlockStatus.PENDING: Step.REGISTER,
    BlockStatus.DBS_REGISTERED: Step.PROTECT,
    BlockStatus.SOURCE_PROTECTED: Step.REQUEST_TRANSFERS,
    BlockStatus.TRANSFERS_REQUESTED: Step.POLL_TRANSFERS,
    BlockStatus.TRANSFERRING: Step.POLL_TRANSFERS,
    BlockStatus.TRANSFERRED: Step.RELEASE_SOURCE,
    BlockStatus.SOURCE_RELEASED: Step.ANNOUNCE,
    BlockStatus.INVALIDATING: Step.UNDO,
}


class Tier(IntEnum):
    """What comes first when there is more to do than hands: safety, then progress, then looking."""

    PROTECT = 0
    REQUEST = 1
    POLL = 2


_TIER_OF_STEP = {
    Step.REGISTER: Tier.PROTECT,
    Step.PROTECT: Tier.PROTECT,
    Step.REQUEST_TRANSFERS: Tier.REQUEST,
    Step.RELEASE_SOURCE: Tier.REQUEST,
    Step.ANNOUNCE: Tier.REQUEST,
    Step.UNDO: Tier.REQUEST,
    Step.POLL_TRANSFERS: Tier.POLL,
}
# While our own limit of calls to a service is used up: how long a worker waits, and when it is tried again
RATE_LIMIT_PATIENCE_SEC = {Tier.PROTECT: 10.0, Tier.REQUEST: 2.0, Tier.POLL: 0.0}
RATE_LIMIT_RETRY_SEC = {Tier.PROTECT: 1.0, Tier.REQUEST: 5.0, Tier.POLL: 30.0}
TIER_OF: dict[BlockStatus, Tier] = {status: _TIER_OF_STEP[step] for status, step in NEXT_STEP.items()}


def statuses_of(tier: Tier) -> list[str]:
    """The statuses whose next step is of this tier."""
    return sorted(status.value for status, of in TIER_OF.items() if of is tier)
