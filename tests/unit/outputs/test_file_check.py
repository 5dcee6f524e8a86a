"""Comparison of a merged file with its job's report, and the text of differences."""

from __future__ import annotations

from typing import Any

import pytest

from outputs_app.file_check import Content, Reported, compare_bytes, compare_content

REPORTED = Reported(
    lfn="/store/data/a.root",
    size_bytes=1000,
    adler32="0123abcd",
    events=30,
    lumis=[[1, 1, 4], [2, 7, 7]],
    lumi_events=[[1, 1, 2, 10], [2, 7, 7, 10]],
)
SAME = {"1": [[1, 2, 10]], "2": [[7, 7, 10]]}


@pytest.mark.parametrize(
    ("found", "difference"),
    [
        ({}, ""),
        ({"size_bytes": 999}, "999 bytes on the storage, 1000 reported by its job"),
        ({"adler32": "ffff0000"}, "checksum ffff0000 on the storage, 0123abcd reported by its job"),
    ],
)
def test_size_and_checksum(found: dict[str, Any], difference: str) -> None:
    assert compare_bytes(REPORTED, **({"size_bytes": 1000, "adler32": "0123abcd"} | found)) == difference


@pytest.mark.parametrize(
    ("events", "lumi_events", "difference"),
    [
        (30, SAME, ""),
        (30, None, ""),  # events carry no lumis, as in CMSSW's own format
        (30, {"1": [[1, 1, 10], [2, 2, 10]], "2": [[7, 7, 10]]}, ""),
        (29, SAME, "29 events in the file, 30 reported by its job"),
        (
            30,
            {"1": [[1, 2, 10], [9, 9, 10]]},
            "run 1 lumis 9-9 are in the file and were not reported by its job",
        ),
        (
            30,
            {"1": [[1, 1, 11], [2, 2, 9]], "2": [[7, 7, 10]]},
            "11 events of run 1 lumi 1 in the file, 10 reported by its job",
        ),
        (
            30,
            {"1": [[1, 3, 10]]},
            "10 events of run 1 lumi 3 in the file, 0 reported by its job",
        ),
    ],
)
def test_events_and_lumis(events: int, lumi_events: Any, difference: str) -> None:
    assert compare_content(REPORTED, Content(events=events, lumi_events=lumi_events)) == difference


def test_lumis_without_their_events_are_compared_as_far_as_they_are_known() -> None:
    reported = Reported("/store/data/a.root", 1, "0", events=10, lumis=[[1, 1, 5]])
    assert compare_content(reported, Content(10, lumi_events={"1": [[2, 2, 10]]})) == ""
