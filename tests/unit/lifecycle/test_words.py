"""Counts in sentences."""

from __future__ import annotations

import pytest

from wms2_project.words import counted


@pytest.mark.parametrize(
    ("number", "message"), [(0, "0 groups"), (1, "1 group"), (2, "2 groups"), (1200, "1,200 groups")]
)
def test_one_is_not_many(number: int, message: str) -> None:
    assert counted(number, "group") == message
