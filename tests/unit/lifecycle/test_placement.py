"""Which schedd the next DAG goes to."""

from __future__ import annotations

import pytest

from dags_app.schedd_choice import Candidate, decide_schedd


def schedd(name: str, room: int | None, waiting: int = 0, dags: int = 0) -> Candidate:
    return Candidate(name=name, room=room, waiting=waiting, dags=dags)


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [
        ([schedd("a", 10), schedd("b", 50)], "b"),
        ([schedd("a", 50, waiting=45), schedd("b", 10)], "b"),
        ([schedd("a", 10, dags=3), schedd("b", 10, dags=1)], "b"),
        ([schedd("b", 10), schedd("a", 10)], "a"),
        ([schedd("a", None), schedd("b", 10_000)], "a"),
        ([schedd("a", 1), schedd("b", 2)], "b"),
        ([schedd("a", 1), schedd("b", 3, waiting=2)], None),
        ([], None),
    ],
    ids=["room", "waiting counts", "fewest", "name", "no limit", "outer and one group", "full", "nobody"],
)
def test_most_free_slots_win(candidates: list[Candidate], chosen: str | None) -> None:
    assert decide_schedd(candidates) == chosen
