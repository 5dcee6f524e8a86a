"""Run lists and lumi masks on ranges."""

from __future__ import annotations

from typing import Any

import pytest

from dags_app.planning.selection import selects_everything, wanted_lumis

LUMIS = [(1, 1, 10), (2, 5, 20), (3, 1, 1)]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [(1, 1, 10), (2, 5, 20), (3, 1, 1)]),
        ({"run_whitelist": [2]}, [(2, 5, 20)]),
        ({"run_blacklist": [2]}, [(1, 1, 10), (3, 1, 1)]),
        ({"run_whitelist": [1, 2], "run_blacklist": [2]}, [(1, 1, 10)]),
        ({"lumi_mask": {"1": [[3, 4], [9, 99]]}}, [(1, 3, 4), (1, 9, 10)]),
        ({"lumi_mask": {"7": [[1, 2]]}}, []),
        ({"lumi_mask": {"2": [[1, 4]]}}, []),
    ],
)
def test_only_what_is_asked_for_is_kept(params: dict[str, Any], expected: list[tuple[int, int, int]]) -> None:
    assert list(wanted_lumis(LUMIS, params)) == expected


def test_empty_lists_select_everything() -> None:
    assert selects_everything({"run_whitelist": [], "lumi_mask": {}})
    assert not selects_everything({"run_blacklist": [5]})
