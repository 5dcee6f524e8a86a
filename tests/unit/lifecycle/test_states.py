"""The transition table as the operators' handbook states it."""

from __future__ import annotations

import pytest

from requests_app.states import (
    DEADLINES,
    DORMANT,
    QUEUES,
    SWEPT,
    TAKES_CAPACITY,
    TERMINAL,
    TRANSITIONS,
    WHY,
    Overdue,
    RequestStatus,
    may_move,
)

TABLE = {
    "new": "submitted aborted",
    "submitted": "queued held aborted",
    "queued": "pilot_running planning stopping held aborted",
    "pilot_running": "planning held stopping aborted",
    "planning": "active queued stopping held aborted",
    "active": "completed partial queued stopping held aborted failed",
    "partial": "resubmitting queued held aborted",
    "stopping": "resubmitting partial pilot_running held aborted failed",
    "resubmitting": "queued held aborted",
    "held": "queued stopping failed aborted",
    "completed": "",
    "failed": "",
    "aborted": "",
}


@pytest.mark.parametrize(("status", "after"), TABLE.items())
def test_a_status_moves_only_where_the_handbook_says(status: str, after: str) -> None:
    assert TRANSITIONS[RequestStatus(status)] == set(after.split())


def test_every_status_says_why_it_exists() -> None:
    assert set(WHY) == set(RequestStatus)
    assert all(len(why) > 20 for why in WHY.values())


def test_every_swept_status_has_a_queue_and_a_deadline() -> None:
    assert set(QUEUES) == set(SWEPT) == set(DEADLINES)
    assert set(QUEUES.values()) <= {"lifecycle", "planning", "condor", "outputs"}


def test_held_takes_no_capacity_and_is_never_swept() -> None:
    assert RequestStatus.HELD in DORMANT
    assert RequestStatus.HELD not in TAKES_CAPACITY | SWEPT


def test_no_deadline_ever_fails_a_request() -> None:
    assert {deadline.then for deadline in DEADLINES.values()} <= set(Overdue)
    assert "fail" not in {then.value for then in Overdue}


def test_whatever_a_deadline_holds_may_be_held() -> None:
    for status, deadline in DEADLINES.items():
        if deadline.then is Overdue.HOLD:
            assert may_move(status, RequestStatus.HELD), status


def test_every_status_can_reach_an_end() -> None:
    reach = {status: set(after) for status, after in TRANSITIONS.items()}
    for _ in RequestStatus:
        for after in reach.values():
            after |= {further for step in set(after) for further in reach[step]}
    assert all(reach[status] & TERMINAL for status in RequestStatus if status not in TERMINAL)
