"""The part of ReqMgr2's state machine that WMS2 uses. Pure."""

from __future__ import annotations

CHAIN = (
    "new", "assignment-approved", "assigned", "staging", "staged", "acquired", "running-open",
    "running-closed", "completed", "closed-out", "announced", "normal-archived",
)  # fmt: skip
# States outside the chain that lead back into it, and the state of the chain that they correspond to.
SIDINGS = {"failed": "assignment-approved", "force-complete": "running-closed"}
ABORTED = "aborted"
# Next status when a request is given up: unassigned requests are rejected, a forced completion can only be
# completed. Requests that are completed or ended in ReqMgr2 are left as they are.
GIVEN_UP = {
    "new": "rejected",
    "assignment-approved": "rejected",
    "failed": "rejected",
    "force-complete": "completed",
    **dict.fromkeys(CHAIN[2:8], ABORTED),
}


def decide_path(current: str, target: str) -> tuple[str, ...]:
    """Return the statuses to set in order; none if ReqMgr2 is at, past or on another way than the target."""
    if target == ABORTED:
        return (GIVEN_UP[current],) if current in GIVEN_UP else ()
    here = SIDINGS.get(current, current)
    if here not in CHAIN:
        return ()
    return CHAIN[CHAIN.index(here) + 1 : CHAIN.index(target) + 1]
