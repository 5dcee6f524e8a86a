"""Scopes of a workflow's token: its input and its own outputs only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags_app.credentials.scopes import (
    MAX_INPUT_DIRECTORIES,
    MIN_DEPTH,
    InputTooScattered,
    TokenLife,
    build_scopes,
    collapse_directories,
)

WORKFLOW = "0b8e5a3c-7a51-4d6a-9a3f-0d5f3c1e2b44"
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
SEGMENTS = st.sampled_from(["a", "ab", "b", "v1"])
DIRECTORIES = st.lists(
    st.lists(SEGMENTS, min_size=2, max_size=5).map(lambda parts: "/".join(["/store", *parts])), max_size=40
)


def scopes(**changes: Any) -> list[str]:
    values: dict[str, Any] = {
        "workflow_id": WORKFLOW,
        "input_directories": ["/store/data/Run2026A/Zero/RAW/v1/000"],
        "output_datasets": ["/Zero/Run2026A-Re-v2/AOD"],
        "merged_base": "/store/data",
        "unmerged_base": "/store/unmerged",
    }
    return build_scopes(**(values | changes))


def test_a_token_reads_input_and_writes_to_its_own_directories_only() -> None:
    merged = "/store/data/Run2026A/Zero/AOD/Re-v2"
    unmerged = f"/store/unmerged/Run2026A/Zero/AOD/Re-v2/{WORKFLOW}"

    assert scopes() == [
        f"storage.modify:{merged}",
        f"storage.modify:{unmerged}",
        f"storage.read:{merged}",
        "storage.read:/store/data/Run2026A/Zero/RAW/v1/000",
        f"storage.read:{unmerged}",
    ]


def test_a_generator_reads_only_its_output_directories() -> None:
    found = scopes(input_directories=[])

    read = {scope.partition(":")[2] for scope in found if scope.startswith("storage.read:")}
    assert read == {scope.partition(":")[2] for scope in found if scope.startswith("storage.modify:")}


def test_every_output_dataset_has_its_directories() -> None:
    found = scopes(output_datasets=["/Zero/A-B-v1/AOD", "/Zero/A-B-v1/MINIAOD"])

    assert len([scope for scope in found if scope.startswith("storage.modify:")]) == 4


@pytest.mark.parametrize(
    ("given_directories", "limit", "expected"),
    [
        ([], 3, []),
        (["/store/a/b/c"], 1, ["/store/a/b/c"]),
        (["/store/a/b", "/store/a/b/c", "/store/a/bc"], 3, ["/store/a/b", "/store/a/bc"]),
        (["/store/a/b/c/1", "/store/a/b/c/2"], 1, ["/store/a/b/c"]),
        (["/store/a/b/c/1", "/store/a/b/c/2", "/store/x/y/z"], 2, ["/store/a/b/c", "/store/x/y/z"]),
        (["/store/a/b/c/1/2", "/store/a/b/d/1", "/store/a/b/d/2"], 1, ["/store/a/b"]),
    ],
)
def test_directories_are_collapsed_to_few_enough(
    given_directories: list[str], limit: int, expected: list[str]
) -> None:
    assert collapse_directories(given_directories, limit=limit) == expected


def test_input_in_too_many_places_is_refused_with_a_cure() -> None:
    scattered = [f"/store/user/person{n}" for n in range(MAX_INPUT_DIRECTORIES + 1)]

    with pytest.raises(InputTooScattered, match="11 directories") as raised:
        scopes(input_directories=scattered)
    assert "Split the request" in raised.value.cure


@given(DIRECTORIES, st.integers(1, 6))
def test_collapsing_loses_no_directory_and_never_opens_more_than_needed(found: list[str], limit: int) -> None:
    try:
        kept = collapse_directories(found, limit=limit)
    except InputTooScattered:
        return
    assert len(kept) <= limit
    for directory in found:
        assert sum(f"{directory}/".startswith(f"{one}/") for one in kept) == 1
    for one in kept:
        assert one in found or one.count("/") >= MIN_DEPTH
        assert any(f"{directory}/".startswith(f"{one}/") for directory in found)


@pytest.mark.parametrize(
    ("left_sec", "due", "expiring"),
    [(3600, False, False), (1801, False, False), (1799, True, False), (901, True, False), (899, True, True),
     (0, True, True), (-60, True, True), (None, True, True)],
)  # fmt: skip
def test_a_token_is_renewed_at_half_and_reported_at_a_quarter_of_its_life(
    left_sec: int | None, due: bool, expiring: bool
) -> None:
    ends = None if left_sec is None else NOW + timedelta(seconds=left_sec)
    life = TokenLife(ends, lifetime_sec=3600)

    assert (life.is_due(NOW), life.is_expiring(NOW)) == (due, expiring)
