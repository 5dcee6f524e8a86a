"""Choice of the schedd of the next DAG, and the number of groups that each DAG may run there."""

from __future__ import annotations

import pytest

from dags_app.schedd_choice import Candidate, decide_schedd, share_groups


def schedd(
    name: str, allowed: int | None, *, running: int = 0, waiting: int = 0, dags: int | None = None
) -> Candidate:
    return Candidate(name, allowed, running, waiting, waiting if dags is None else dags)


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [
        ([schedd("a", 10), schedd("b", 50)], "b"),
        ([schedd("a", 50, running=45), schedd("b", 10)], "b"),
        ([schedd("a", 50, waiting=23), schedd("b", 10)], "b"),
        ([schedd("a", 10, running=6, dags=3), schedd("b", 10, running=6, dags=1)], "b"),
        ([schedd("b", 10), schedd("a", 10)], "a"),
        ([schedd("a", None), schedd("b", 10_000)], "a"),
        ([schedd("a", 1), schedd("b", 2)], "b"),
        ([schedd("a", 1), schedd("b", 5, waiting=2)], None),
        ([schedd("a", 12, running=6, dags=6)], None),
        ([], None),
    ],
    ids=[
        "free slots", "running counts", "waiting counts twice", "fewest", "name", "no limit", 
        "outer and one group", "full", "a group for every outer DAGMan", "none",
    ],
)  # fmt: skip
def test_most_free_slots_win(candidates: list[Candidate], chosen: str | None) -> None:
    assert decide_schedd(candidates) == chosen


@pytest.mark.parametrize(
    ("allowed", "dags", "share"),
    [(12, 1, 11), (12, 2, 5), (12, 6, 1), (12, 11, 1), (200, 18, 10), (None, 5, None), (12, 0, None)],
)
def test_dags_share_the_slots_that_outer_dagmans_leave(
    allowed: int | None, dags: int, share: int | None
) -> None:
    assert share_groups(allowed=allowed, dags=dags) == share
