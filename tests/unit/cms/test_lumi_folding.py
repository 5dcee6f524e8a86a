from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cms.types import fold_lumis

ROWS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 30)), max_size=60)


def test_neighbours_join_and_runs_stay_apart() -> None:
    rows = [(2, 1), (1, 3), (1, 1), (1, 2), (1, 2), (1, 7)]

    assert fold_lumis(rows) == ((1, 1, 3), (1, 7, 7), (2, 1, 1))


@given(ROWS)
def test_ranges_hold_exactly_the_lumis_given(rows: list[tuple[int, int]]) -> None:
    ranges = fold_lumis(rows)

    assert {(run, lumi) for run, first, last in ranges for lumi in range(first, last + 1)} == set(rows)


@given(ROWS)
def test_ranges_are_sorted_and_never_touch(rows: list[tuple[int, int]]) -> None:
    ranges = fold_lumis(rows)

    assert list(ranges) == sorted(ranges)
    for before, after in pairwise(ranges):
        assert before[0] < after[0] or before[2] + 1 < after[1]
