"""Measurement of ratios, and their comparison with bars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.bars import BARS, Bar
from benchmarks.harness import (
    SLOW_REPEAT,
    Measured,
    Pairs,
    Result,
    Verdict,
    alternate,
    judge,
    percentile,
    timed,
)
from benchmarks.places import Places
from benchmarks.run import Run

AT_MOST = Bar("X1", "something", "something else", bar=15, moonshot=4)
AT_LEAST = Bar("X2", "something", "something else", bar=50, moonshot=90, unit="%", at_least=True)
NOWHERE = Places(database_server="", redis="", submit_root="")


def test_candidate_and_reference_alternate_and_take_turns_in_being_first() -> None:
    order: list[str] = []

    def noted(name: str, seconds: float) -> float:
        order.append(name)
        return seconds

    pairs = alternate(lambda: noted("ours", 6.0), lambda: noted("theirs", 2.0), repeat=3)

    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert pairs == Pairs(candidate=(6.0,) * 3, reference=(2.0,) * 3)


def test_one_outlier_does_not_move_the_ratio() -> None:
    pairs = Pairs(candidate=(3.0, 3.0, 90.0, 3.0, 3.0), reference=(1.0, 50.0, 1.0, 1.0, 1.0))

    assert pairs.ratio == 3.0
    assert pairs.rate_percent == pytest.approx(33.33, abs=0.01)


def test_the_spread_is_the_interquartile_range_of_the_ratios() -> None:
    steady = Pairs(candidate=(2.0,) * 5, reference=(1.0,) * 5)
    noisy = Pairs(candidate=(0.8, 0.8, 0.8, 0.8, 2.4), reference=(1.6, 0.4, 0.8, 2.4, 2.4))

    assert steady.spread == (2.0, 2.0)
    assert steady.spread_percent == (50.0, 50.0)
    assert noisy.spread == pytest.approx((0.5, 1.0))
    assert noisy.spread_percent == pytest.approx((100, 200))


def test_slow_work_is_repeated_less_often() -> None:
    pairs = alternate(lambda: 15.0, lambda: 6.0, repeat=5)

    assert len(pairs.candidate) == len(pairs.reference) == SLOW_REPEAT


def test_before_and_after_are_not_timed() -> None:
    now = [0.0]

    def passes(seconds: float) -> None:
        now[0] += seconds

    sample = timed(
        lambda: passes(2), before=lambda: passes(10), after=lambda: passes(100), clock=lambda: now[0]
    )

    assert sample() == 2
    assert now == [112]


@pytest.mark.parametrize(
    ("bar", "value", "verdict", "moonshot"),
    [
        (AT_MOST, 15.0, Verdict.MET, False),
        (AT_MOST, 15.1, Verdict.MISSED, False),
        (AT_MOST, 4.0, Verdict.MET, True),
        (AT_LEAST, 50.0, Verdict.MET, False),
        (AT_LEAST, 49.9, Verdict.MISSED, False),
        (AT_LEAST, 90.0, Verdict.MET, True),
    ],
)
def test_a_value_is_judged_by_its_bar(bar: Bar, value: float, verdict: Verdict, moonshot: bool) -> None:
    result = judge(bar, Measured(value, {}))

    assert (result.verdict, result.moonshot) == (verdict, moonshot)


def test_a_moonshot_measured_by_itself_counts_only_once_the_bar_is_met() -> None:
    assert judge(AT_MOST, Measured(10, {}, hoped=1)).moonshot is True
    assert judge(AT_MOST, Measured(20, {}, hoped=1)).moonshot is False


def test_a_smoke_test_is_not_judged() -> None:
    result = judge(AT_MOST, Measured(1000, {}), quick=True)

    assert (result.verdict, result.moonshot) == (Verdict.QUICK, None)


def test_nothing_measured_reaches_no_moonshot() -> None:
    assert Result(AT_MOST, Verdict.NOT_RUN, reason="why").moonshot is None


@pytest.mark.parametrize(("percent", "expected"), [(99, 99), (100, 100), (50, 50), (0, 1)])
def test_a_percentile_is_one_of_the_values(percent: float, expected: float) -> None:
    assert percentile([float(number) for number in range(100, 0, -1)], percent) == expected


def test_shared_things_are_opened_once_and_closed_in_reverse() -> None:
    result: list[str] = []

    @contextmanager
    def opened(name: str) -> Iterator[str]:
        result.append(f"open {name}")
        yield name
        result.append(f"close {name}")

    run = Run(places=NOWHERE)
    for name in ("database", "rows", "database"):
        assert run.shared(name, lambda name=name: opened(name)) == name  # type: ignore[misc]
    run.close()

    assert result == ["open database", "open rows", "close rows", "close database"]


def test_every_bar_is_harder_to_reach_as_a_moonshot() -> None:
    assert list(BARS) == sorted(BARS, key=lambda id_: int(id_[1:]))
    for bar in BARS.values():
        assert bar.meets(bar.moonshot)
        assert not bar.reaches_moonshot(bar.bar) or bar.bar == bar.moonshot
