"""ReqMgr2's own state machine, as far as WMS2 walks it. Pure."""

from __future__ import annotations

CHAIN = (
    "new", "assignment-approved", "assigned", "staging", "staged", "acquired", "running-open",
    "running-closed", "completed", "closed-out", "announced", "normal-archived",
)  # fmt: skip
EXITS: dict[str, frozenset[str]] = {
    "aborted": frozenset(CHAIN[2:8]),
    "failed": frozenset({"staged", "acquired"}),
    "rejected": frozenset({"new", "assignment-approved", "completed", "closed-out", "announced"}),
}


def decide_path(current: str, target: str) -> tuple[str, ...]:
    """The statuses to set one after the other; none when ReqMgr2 is there, past it, or went elsewhere."""
    if current not in CHAIN:
        return ()
    here = CHAIN.index(current)
    if target in CHAIN:
        return CHAIN[here + 1 : CHAIN.index(target) + 1]
    for index in range(here, len(CHAIN)):
        if CHAIN[index] in EXITS[target]:
            return (*CHAIN[here + 1 : index + 1], target)
    return ()
