"""Paths through ReqMgr2's state machine, checked against the lab's implementation of it."""

from __future__ import annotations

import pytest

from cms.reqmgr2 import ABORTED, CHAIN, decide_path
from lab.cms_world.reqmgr2 import TRANSITIONS


def test_every_step_of_every_path_is_legal_there() -> None:
    for current in TRANSITIONS:
        for target in (*CHAIN, ABORTED):
            before = current
            for step in decide_path(current, target):
                assert step in TRANSITIONS[before], (current, target)
                before = step


@pytest.mark.parametrize(
    ("current", "target", "path"),
    [
        ("assigned", "acquired", ("staging", "staged", "acquired")),
        ("acquired", "running-open", ("running-open",)),
        ("running-open", "announced", ("running-closed", "completed", "closed-out", "announced")),
        ("assigned", "aborted", ("aborted",)),
        ("running-closed", "aborted", ("aborted",)),
        ("new", "aborted", ("rejected",)),
        ("assignment-approved", "aborted", ("rejected",)),
        ("failed", "aborted", ("rejected",)),
        ("failed", "acquired", ("assigned", "staging", "staged", "acquired")),
        ("force-complete", "running-open", ()),
        ("force-complete", "announced", ("completed", "closed-out", "announced")),
        ("force-complete", "aborted", ("completed",)),
        ("closed-out", "aborted", ()),
        ("completed", "running-open", ()),
        ("announced", "announced", ()),
        ("aborted-archived", "announced", ()),
    ],
)
def test_paths(current: str, target: str, path: tuple[str, ...]) -> None:
    assert decide_path(current, target) == path
