"""Transfers in a node's report: capped when written, refused when wrong."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from sandbox.jsonfile import ClaimRefused
from sandbox.report import MAX_PROBLEM, MAX_TRANSFERS, NodeReport, Transfer, read_report, write_report

TRANSFER = Transfer(
    direction="out",
    lfn="/store/unmerged/a.root",
    place=1,
    prefix="davs://se.example.org/cms",
    size_bytes=100,
    seconds=0.5,
    bytes_per_sec=200.0,
    tries=3,
    problem="503 busy",
)
REPORT = NodeReport(
    node="proc_000000", group="mg_000000", role="processing", site="T2_CH_CERN", attempt=0, exit_code=0,
    error="", started_at=1.0, wall_time_sec=1.0, cpu_time_sec=1.0, peak_rss_mb=1, events_read=0,
    events_written=0,
    transfers=(TRANSFER,),
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "proc_000000.report.json"


def test_transfers_are_read_as_they_were_written(path: Path) -> None:
    write_report(path, REPORT)
    assert read_report(path).transfers == (TRANSFER,)


def test_a_report_without_transfers_is_read(path: Path) -> None:
    write_report(path, REPORT)
    document = json.loads(path.read_text())
    del document["transfers"]
    path.write_text(json.dumps(document))
    assert read_report(path).transfers == ()


def test_a_report_has_the_first_transfers_and_short_problems(path: Path) -> None:
    long = replace(TRANSFER, problem="x\0" * MAX_PROBLEM)
    write_report(path, replace(REPORT, transfers=(long,) * (MAX_TRANSFERS + 1)))
    read = read_report(path).transfers
    assert len(read) == MAX_TRANSFERS
    assert read[0].problem == "x?" * (MAX_PROBLEM // 2)


@pytest.mark.parametrize(
    "change",
    [
        {"direction": "sideways"}, {"lfn": "/etc/passwd"}, {"lfn": "/store/../x"}, {"place": -1},
        {"place": 8}, {"prefix": "http://elsewhere"}, {"prefix": None}, {"size_bytes": -1},
        {"size_bytes": 1e30}, {"seconds": -1}, {"bytes_per_sec": "fast"}, {"tries": 0}, {"tries": 10**6},
        {"problem": 7},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_transfer_is_refused(path: Path, change: dict[str, Any]) -> None:
    write_report(path, REPORT)
    document = json.loads(path.read_text())
    document["transfers"] = [asdict(TRANSFER) | change]
    path.write_text(json.dumps(document))
    with pytest.raises(ClaimRefused, match=next(iter(change))):
        read_report(path)


def test_too_many_transfers_are_refused(path: Path) -> None:
    write_report(path, REPORT)
    document = json.loads(path.read_text())
    document["transfers"] *= MAX_TRANSFERS + 1
    path.write_text(json.dumps(document))
    with pytest.raises(ClaimRefused, match="transfers"):
        read_report(path)
