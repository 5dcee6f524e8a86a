"""Run lists and lumi masks on ranges."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags_app.planning.lumis import normalised
from dags_app.planning.selection import Selection
from sandbox.lumis import LumiRange
from wms2_project.errors import InvalidInput

LUMIS = [(1, 1, 10), (2, 5, 20), (3, 1, 1)]
ranges = st.lists(
    st.builds(lambda run, a, n: (run, a, a + n), st.integers(1, 4), st.integers(1, 40), st.integers(0, 9)),
    max_size=8,
)
pairs = st.lists(st.builds(lambda a, n: [a, a + n], st.integers(1, 40), st.integers(0, 9)), max_size=5)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [(1, 1, 10), (2, 5, 20), (3, 1, 1)]),
        ({"run_whitelist": [2]}, [(2, 5, 20)]),
        ({"runWhitelist": ["2"]}, [(2, 5, 20)]),
        ({"run_blacklist": [2]}, [(1, 1, 10), (3, 1, 1)]),
        ({"runBlacklist": (2,)}, [(1, 1, 10), (3, 1, 1)]),
        ({"run_whitelist": [1, 2], "run_blacklist": [2]}, [(1, 1, 10)]),
        ({"lumi_mask": {"1": [[3, 4], [9, 99]]}}, [(1, 3, 4), (1, 9, 10)]),
        ({"lumi_mask": {1: [[3, 4], [5, 6]]}}, [(1, 3, 6)]),
        ({"lumi_mask": {"7": [[1, 2]]}}, []),
        ({"lumi_mask": {"2": [[1, 4]]}}, []),
        ({"runs": ["1", "2"], "lumis": ["3,4,9,99", "1,5"]}, [(1, 3, 4), (1, 9, 10), (2, 5, 5)]),
    ],
)
def test_only_selected_lumis_are_kept(params: dict[str, Any], expected: list[LumiRange]) -> None:
    assert list(Selection.of(params).wanted(normalised(LUMIS))) == expected


def test_empty_lists_select_everything() -> None:
    assert Selection.of({"run_whitelist": [], "lumi_mask": {}, "runs": [], "lumis": []}).everything
    assert not Selection.of({"run_blacklist": [5]}).everything
    assert not Selection.of({"runs": ["1"], "lumis": ["1,1"]}).everything


@given(
    st.lists(ranges, max_size=6),
    st.lists(st.integers(1, 4), max_size=2),
    st.lists(st.integers(1, 4), max_size=2),
    st.dictionaries(st.integers(1, 4).map(str), pairs, max_size=4),
)
def test_a_selection_keeps_exactly_the_lumis_that_pass_every_rule(
    files: list[list[LumiRange]], allowed: list[int], refused: list[int], mask: dict[str, list[list[int]]]
) -> None:
    params = {"run_whitelist": allowed, "run_blacklist": refused, "lumi_mask": mask}
    selection = Selection.of(params)

    def good(run: int, lumi: int) -> bool:
        listed = (not allowed or run in allowed) and run not in refused
        return listed and (not mask or any(a <= lumi <= b for a, b in mask.get(str(run), [])))

    for lumis in map(normalised, files):  # one selection for all: what it remembers must not matter
        singles = {(run, lumi) for run, a, b in lumis for lumi in range(a, b + 1)}
        kept = {(run, lumi) for run, a, b in selection.wanted(lumis) for lumi in range(a, b + 1)}
        assert kept == {pair for pair in singles if good(*pair)}
        assert normalised(selection.wanted(lumis)) == selection.wanted(lumis)


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"lumi_mask": {"1": [[9, 3]]}}, "lumi_mask"),
        ({"lumi_mask": {"1": [[1, 2, 3]]}}, "lumi_mask"),
        ({"lumi_mask": {"1": [["1", "2"]]}}, "lumi_mask"),
        ({"lumi_mask": {"1": [[1, math.nan]]}}, "lumi_mask"),
        ({"lumi_mask": {"1": 5}}, "lumi_mask"),
        ({"lumi_mask": {"one": [[1, 2]]}}, "lumi_mask"),
        ({"lumi_mask": {"01": [[1, 2]]}}, "lumi_mask"),
        ({"lumi_mask": {"1": [[1, 2]], 1: [[3, 4]]}}, "lumi_mask"),
        ({"lumi_mask": [[1, 2]]}, "lumi_mask"),
        ({"lumi_mask": {"1": [[1, 2]]}, "runs": ["1"], "lumis": ["1,2"]}, "lumi_mask"),
        ({"runs": ["1"], "lumis": ["9,3"]}, "lumi_mask"),
        ({"runs": ["1"], "lumis": ["1,2,3"]}, "lumis"),
        ({"runs": ["1"], "lumis": ["1,x"]}, "lumis"),
        ({"runs": ["1", "2"], "lumis": ["1,2"]}, "runs"),
        ({"runs": ["1", "1"], "lumis": ["1,2", "5,6"]}, "runs"),
        ({"run_whitelist": "12"}, "run_whitelist"),
        ({"run_whitelist": [-1]}, "run_whitelist"),
        ({"run_whitelist": [math.nan]}, "run_whitelist"),
        ({"run_blacklist": 5}, "run_blacklist"),
    ],
)
def test_a_faulty_list_or_mask_is_refused_by_name(params: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidInput, match=name) as refused:
        Selection.of(params).check()
    assert refused.value.cure
