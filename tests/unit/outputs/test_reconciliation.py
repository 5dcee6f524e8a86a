"""Counting and comparison, without a catalogue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cms.types import FileCounts
from outputs_app.reconciliation import compare_counts
from sandbox.lumis import count, merged

RANGES = st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(0, 10)).map(
    lambda part: (part[0], part[1], part[1] + part[2])
)


@given(st.lists(RANGES, max_size=12))
def test_lumis_are_counted_once_however_the_ranges_lie(ranges: list[tuple[int, int, int]]) -> None:
    one_by_one = {(run, lumi) for run, first, last in ranges for lumi in range(first, last + 1)}
    assert count(merged(ranges)) == len(one_by_one)


def test_values_a_catalogue_does_not_count_are_not_compared() -> None:
    ours = FileCounts(files=2, bytes=10, events=5, lumis=3)
    assert compare_counts("Rucio", "/A/B/C#1", ours=ours, theirs=FileCounts(files=2, bytes=10)) == []
    [wrong] = compare_counts("DBS", "/A/B/C#1", ours=ours, theirs=FileCounts(2, 10, 5, 4))
    assert str(wrong) == "DBS, /A/B/C#1: lumis 4, expected 3"


def test_an_unknown_block_is_one_difference() -> None:
    [missing] = compare_counts("DBS", "/A/B/C#1", ours=FileCounts(2, 10, 5, 3), theirs=None)
    assert (missing.what, missing.theirs) == ("files", "none")
