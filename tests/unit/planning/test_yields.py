"""Expected yield of the filter of a Monte Carlo request, and when the request is held."""

from __future__ import annotations

import pytest

from dags_app.planning.estimates import events_to_generate
from dags_app.planning.yields import PoorYield, RoundYield, believed_efficiency, find_poor_yield


def production(generated: int, written: int) -> RoundYield:
    return RoundYield(production=True, generated=generated, written=written)


def pilot(generated: int, written: int) -> RoundYield:
    return RoundYield(production=False, generated=generated, written=written)


@pytest.mark.parametrize(
    ("rounds", "believed"),
    [
        ([], 0.5),
        ([pilot(75, 5)], 0.5),  # too small to replace the value of the request
        ([production(200, 1)], 0.005),
        ([pilot(100, 0), production(100, 10)], 0.05),
        ([production(200, 0)], 0.5),  # nothing was measured that a plan could use
        ([production(200, 0), production(200, 2)], 0.005),
        ([production(10, 12)], 1.0),
    ],
)
def test_later_rounds_use_measurements(rounds: list[RoundYield], believed: float) -> None:
    assert believed_efficiency(rounds, declared=0.5) == believed


@pytest.mark.parametrize(
    ("rounds", "declared", "poor"),
    [
        ([], 0.5, None),
        ([production(20, 0)], 0.5, PoorYield(1, 20, 0, 10.0)),
        ([pilot(75, 0)], 0.5, PoorYield(1, 75, 0, 37.5)),
        ([production(1, 0)], 1.0, PoorYield(1, 1, 0, 1.0)),  # without a filter there is no fluctuation
        ([production(200, 9)], 0.5, PoorYield(1, 200, 9, 100.0)),
        ([production(200, 10)], 0.5, None),
        ([production(100, 0)], 0.01, None),  # one in three such rounds leaves nothing
        ([production(700, 0), production(700, 0)], 0.01, PoorYield(2, 1400, 0, 14.0)),
        ([production(200, 100), production(200, 0)], 0.5, PoorYield(1, 200, 0, 100.0)),
        ([production(200, 1), production(20_000, 100)], 0.5, None),  # as the second round estimated
        ([production(20, 0), production(20, 8)], 0.5, None),  # the cause was fixed
        ([production(20, 0), production(20, 0)], 0.5, PoorYield(1, 20, 0, 10.0)),
    ],
)
def test_a_yield_far_below_the_estimate_is_detected_and_bad_luck_is_not(
    rounds: list[RoundYield], declared: float, poor: PoorYield | None
) -> None:
    assert find_poor_yield(rounds, declared=declared) == poor


def test_a_wrong_efficiency_costs_few_rounds_once_it_is_measured() -> None:
    real, wanted, rounds = 0.005, 100, list[RoundYield]()
    while (made := sum(one.written for one in rounds)) < wanted:
        believed = believed_efficiency(rounds, declared=0.5)
        generated = events_to_generate(wanted=wanted - made, filter_efficiency=believed)
        rounds.append(production(generated, int(generated * real)))
    assert len(rounds) <= 3
