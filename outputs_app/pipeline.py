"""The output pipeline, decided purely: what a block needs next, and what undoing each state takes."""

from __future__ import annotations

from enum import StrEnum

from outputs_app.states import BlockStatus


class Step(StrEnum):
    """One effect in an outside service."""

    REGISTER = "register"
    PROTECT = "protect"
    REQUEST_TRANSFERS = "request_transfers"
    POLL_TRANSFERS = "poll_transfers"
    RELEASE_SOURCE = "release_source"
    ANNOUNCE = "announce"


NEXT_STEP: dict[BlockStatus, Step] = {
    BlockStatus.PENDING: Step.REGISTER,
    BlockStatus.DBS_REGISTERED: Step.PROTECT,
    BlockStatus.SOURCE_PROTECTED: Step.REQUEST_TRANSFERS,
    BlockStatus.TRANSFERS_REQUESTED: Step.POLL_TRANSFERS,
    BlockStatus.TRANSFERRING: Step.POLL_TRANSFERS,
    BlockStatus.TRANSFERRED: Step.RELEASE_SOURCE,
    BlockStatus.SOURCE_RELEASED: Step.ANNOUNCE,
}

class Undo(StrEnum):
    """What takes back the effects of a state."""

    INVALIDATE_IN_DBS = "invalidate_in_dbs"
    DELETE_SOURCE_RULE = "delete_source_rule"
    DELETE_TRANSFER_RULES = "delete_transfer_rules"


_U = Undo
UNDO: dict[BlockStatus, tuple[Undo, ...]] = {
    BlockStatus.PENDING: (),
    BlockStatus.DBS_REGISTERED: (_U.INVALIDATE_IN_DBS,),
    BlockStatus.SOURCE_PROTECTED: (_U.INVALIDATE_IN_DBS, _U.DELETE_SOURCE_RULE),
    BlockStatus.TRANSFERS_REQUESTED: (_U.INVALIDATE_IN_DBS, _U.DELETE_TRANSFER_RULES, _U.DELETE_SOURCE_RULE),
    BlockStatus.TRANSFERRING: (_U.INVALIDATE_IN_DBS, _U.DELETE_TRANSFER_RULES, _U.DELETE_SOURCE_RULE),
    BlockStatus.TRANSFERRED: (_U.INVALIDATE_IN_DBS, _U.DELETE_TRANSFER_RULES, _U.DELETE_SOURCE_RULE),
    BlockStatus.SOURCE_RELEASED: (_U.INVALIDATE_IN_DBS, _U.DELETE_TRANSFER_RULES),
    BlockStatus.ANNOUNCED: (_U.INVALIDATE_IN_DBS, _U.DELETE_TRANSFER_RULES, _U.DELETE_SOURCE_RULE),
}
