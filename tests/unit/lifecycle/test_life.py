"""The diagram of the statuses of a request agrees with their table."""

from __future__ import annotations

import pytest

from requests_app.life import LEFT_OUT, USUAL, render_life
from requests_app.states import STATUSES, TRANSITIONS, RequestStatus


@pytest.mark.parametrize("status", list(RequestStatus))
def test_every_transition_is_an_arrow_or_left_out_by_name(status: RequestStatus) -> None:
    drawn = {line.split()[-1] for line in render_life().splitlines() if line.startswith(f"  {status} ")}
    assert drawn == set(STATUSES[status].leads_to) - set(LEFT_OUT)


def test_the_usual_way_is_legal() -> None:
    assert all(after in TRANSITIONS[before] for before, after in USUAL)
