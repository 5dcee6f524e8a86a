"""Properties of the whole transition table."""

from __future__ import annotations

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

S = RequestStatus


def before(status: RequestStatus) -> set[RequestStatus]:
    """Return the statuses from which this one is entered."""
    return {one for one in S if may_move(one, status)}


def reachable(start: RequestStatus) -> set[RequestStatus]:
    found, left = {start}, [start]
    while left:
        further = TRANSITIONS[left.pop()] - found
        found |= further
        left += further
    return found


def test_a_request_leaves_every_status_but_the_ends() -> None:
    assert set(TRANSITIONS) == set(S)
    assert {status for status, after in TRANSITIONS.items() if not after} == TERMINAL
    assert not [status for status in S if may_move(status, status)]


def test_every_status_is_reached_from_a_draft() -> None:
    assert reachable(S.NEW) == set(S)


def test_every_status_can_reach_an_end() -> None:
    assert not [status for status in S if not reachable(status) & TERMINAL]


def test_a_request_can_be_aborted_until_it_has_ended() -> None:
    assert before(S.ABORTED) == set(S) - TERMINAL


def test_every_swept_status_can_be_held() -> None:
    assert before(S.HELD) == SWEPT


def test_only_running_work_completes() -> None:
    assert before(S.COMPLETED) == {S.ACTIVE}


def test_capacity_is_taken_through_the_queue_only() -> None:
    for status in (S.PILOT_RUNNING, S.PLANNING, S.ACTIVE):
        assert before(status) <= TAKES_CAPACITY | {S.QUEUED}, status


def test_every_status_has_a_meaning() -> None:
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


def test_every_status_with_a_holding_deadline_may_be_held() -> None:
    for status, deadline in DEADLINES.items():
        if deadline.then is Overdue.HOLD:
            assert may_move(status, RequestStatus.HELD), status
