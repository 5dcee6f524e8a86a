"""ReqMgr2's own state machine, as far as WMS2 walks it. Pure."""

from __future__ import annotations

CHAIN = (
    "new", "assignment-approved", "assigned", "staging", "staged", "acquired", "running-open",
    "running-closed", "completed", "closed-out", "announced", "normal-archived",
)  # fmt: skip
# States beside the chain that lead back into it, and the state of the chain whose successor comes next.
SIDINGS = {"failed": "assignment-approved", "force-complete": "running-closed"}
ABORTED = "aborted"
# How a request is given up: what nobody assigned is rejected; a forced completion can only be completed, and
# then people decide. What is completed or ended there was decided by somebody else.
GIVEN_UP = {
    "new": "rejected",
    "assignment-approved": "rejected",
    "failed": "rejected",
    "force-complete": "completed",
    **dict.fromkeys(CHAIN[2:8], ABORTED),
}


def decide_path(current: str, target: str) -> tuple[str, ...]:
    """The statuses to set one after the other; none when ReqMgr2 is there, past it, or ended it otherwise."""
    if target == ABORTED:
        return (GIVEN_UP[current],) if current in GIVEN_UP else ()
    here = SIDINGS.get(current, current)
    if here not in CHAIN:
        return ()
    return CHAIN[CHAIN.index(here) + 1 : CHAIN.index(target) + 1]
