"""The layout of the graph: nothing overlaps, everything is inside what holds it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dags_app.graph.positions import NODE, RoundShape, build_bands, node_positions

SHAPES = st.builds(RoundShape, groups=st.integers(1, 300), most_jobs=st.integers(1, 2000))


@given(st.lists(SHAPES, min_size=1, max_size=5))
def test_tiles_are_inside_their_band_and_apart(rounds: list[RoundShape]) -> None:
    bands = build_bands(rounds)
    for shape, band in zip(rounds, bands, strict=True):
        places = [band.tile(number) for number in range(shape.groups)]
        assert len(set(places)) == shape.groups
        for x, y in places:
            assert band.x < x
            assert x + band.tile_width < band.x + band.width
            assert band.y < y
            assert y + band.tile_height < band.y + band.height
        xs = sorted({x for x, _ in places})
        assert all(right - left > band.tile_width for left, right in pairwise(xs))
    ends = [band.y + band.height for band in bands]
    assert all(end < band.y for end, band in zip(ends, bands[1:], strict=False))


@given(st.integers(1, 3000), st.data())
def test_nodes_are_inside_their_tile_and_apart(most_jobs: int, data: st.DataObject) -> None:
    jobs = data.draw(st.integers(1, most_jobs))
    (band,) = build_bands([RoundShape(1, most_jobs)])
    places = node_positions(jobs, most_jobs=most_jobs)
    assert len(set(places)) == len(places) == jobs + 3
    assert all(0 <= x <= band.tile_width - NODE and 0 <= y <= band.tile_height - NODE for x, y in places)


def test_many_groups_make_a_picture_wider_than_high_that_fits_a_screen() -> None:
    (band,) = build_bands([RoundShape(100, 100)])
    assert 1 < band.width / band.height < 4


def test_no_rounds_have_no_bands() -> None:
    assert build_bands([]) == []
