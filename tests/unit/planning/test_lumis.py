"""Range algebra agrees with sets of single lumis."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags_app.planning.lumis import chunks, intersect, normalised, order_key, span, subtract
from sandbox.lumis import LumiRange, count
from wms2_project.errors import InvalidInput

one_range = st.builds(
    lambda run, first, more: (run, first, first + more),
    st.integers(0, 3),
    st.integers(0, 25),
    st.integers(0, 5),
)
some_ranges = st.lists(one_range, max_size=8)


def single(ranges: Any) -> set[tuple[int, int]]:
    return {(run, lumi) for run, first, last in ranges for lumi in range(first, last + 1)}


@given(some_ranges)
def test_normalising_keeps_the_lumis_in_as_few_ranges_as_possible(ranges: list[LumiRange]) -> None:
    normal = normalised(ranges)
    assert single(normal) == single(ranges)
    assert list(normal) == sorted(normal)
    assert all(a[0] != b[0] or a[2] + 1 < b[1] for a, b in pairwise(normal))
    assert normalised(normal) is normal
    assert span(normal) == count(normal) == len(single(ranges))


@given(some_ranges, some_ranges)
def test_intersection_and_difference_are_those_of_the_lumis(a: list[LumiRange], b: list[LumiRange]) -> None:
    left, right = normalised(a), normalised(b)
    assert single(intersect(left, right)) == single(a) & single(b)
    assert single(subtract(left, right)) == single(a) - single(b)
    assert normalised(subtract(left, right)) == subtract(left, right)


@given(some_ranges, st.integers(1, 12), st.integers(1, 12))
def test_chunks_have_the_requested_sizes(ranges: list[LumiRange], first: int, further: int) -> None:
    normal = normalised(ranges)
    parts = list(chunks(normal, first, further))
    lumis = [lumi for part, _ in parts for lumi in sorted(single(part))]
    assert lumis == sorted(single(normal))
    assert [count(part) for part, _ in parts] == [number for _, number in parts]
    assert [number for _, number in parts][:-1] == [first, *[further] * (len(parts) - 2)][: len(parts) - 1]


@given(st.lists(st.integers(1, 2**13 - 1), min_size=2, max_size=6))
def test_files_sort_as_their_lumis_written_out_would(drawn: list[int]) -> None:
    files = [[bit for bit in range(13) if bits >> bit & 1] for bits in drawn]
    ranges = [normalised([(1, lumi, lumi) for lumi in lumis]) for lumis in files]
    written = [[lumi for _, lumi in sorted(single(own))] for own in sorted(ranges, key=order_key)]
    assert written == sorted(files)


def test_only_the_lowest_run_decides_the_order() -> None:
    assert order_key(((1, 2, 3), (2, 1, 1))) == order_key(((1, 2, 3), (9, 9, 9)))


def test_a_range_may_be_as_long_as_it_likes() -> None:
    long = ((1, 1, 10**12),)
    assert count(intersect(long, ((1, 10, 10**11),))) == 10**11 - 9
    assert subtract(long, ((1, 5, 10**12),)) == ((1, 1, 4),)


@pytest.mark.parametrize(
    "wrong",
    [
        ((1, 5, 4),),
        ((1, -1, 4),),
        ((-1, 1, 4),),
        ((1, 1, float("nan")),),
        ((1, 1.5, 2.5),),
        (("1", "1", "2"),),
        ((1, 2),),
        (7,),
    ],
)
def test_an_invalid_range_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="lumi ranges"):
        normalised(wrong)
