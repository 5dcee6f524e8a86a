"""Outcomes of runners, and failures that stop a round."""

from __future__ import annotations

import pytest

from dags_app.pull.outcomes import decide_outcome, decide_stop
from dags_app.states import RunnerOutcome as O


@pytest.mark.parametrize(
    ("lent", "processed", "outcome"),
    [(0, 0, O.LATE), (3, 0, O.UNPROCESSED), (3, 1, O.PROCESSED), (3, 3, O.PROCESSED)],
)
def test_outcome_of_a_runner_that_ended_without_an_error(lent: int, processed: int, outcome: O) -> None:
    assert decide_outcome(lent=lent, processed=processed) == outcome


@pytest.mark.parametrize(
    ("ended", "threshold", "stops"),
    [
        ({}, 0.2, False),
        ({O.FAILED: 19}, 0.2, False),
        ({O.FAILED: 20}, 0.2, True),
        ({O.PROCESSED: 16, O.FAILED: 4}, 0.2, True),
        ({O.PROCESSED: 17, O.FAILED: 3}, 0.2, False),
        ({O.PROCESSED: 16, O.LOST: 2, O.UNPROCESSED: 2}, 0.2, True),
        ({O.LATE: 40, O.FAILED: 3}, 0.2, False),
        ({O.STOPPED: 100, O.FAILED: 10}, 0.2, False),
        ({O.STOPPED: 100, O.PROCESSED: 20}, 0.2, False),
    ],
)
def test_lending_stops_when_enough_runners_failed(
    ended: dict[str, int], threshold: float, stops: bool
) -> None:
    assert bool(decide_stop(ended, threshold=threshold)) is stops


def test_the_reason_has_the_numbers() -> None:
    reason = decide_stop({O.PROCESSED: 15, O.FAILED: 5}, threshold=0.25)
    assert reason == "5 of 20 runners failed, which is at or above the threshold of 25%"
