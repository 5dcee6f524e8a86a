"""FileBased and EventBased give the jobs WMCore gives, compared as sets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from dags_app.planning.splitters import split
from dags_app.planning.splitters.event_based import split_generation
from dags_app.planning.types import EventBudget, FileSpec, JobSpec
from dags_app.states import SplittingAlgo

CASES = json.loads((Path(__file__).parent / "oracle.json").read_text())["cases"]
OURS = [case for case in CASES if case["algo"] in ("FileBased", "EventBased")]
Key = tuple[Any, ...]


def planned(case: dict[str, Any]) -> set[Key]:
    sites = frozenset(case["files"][0]["locations"])
    if case["files"][0]["lfn"].startswith("MCFakeFile"):
        one = case["files"][0]
        budget = EventBudget(one["first_event"], min(one["runs"]["1"]), one["events"])
        return {_generated(job) for job in split_generation(budget, case["params"], sites)}
    files = [
        FileSpec(lfn=f["lfn"], events=f["events"], size_bytes=f["size"], sites=frozenset(f["locations"]))
        for f in case["files"]
    ]
    return {_read(job) for job in split(SplittingAlgo(case["algo"]), files, case["params"])}


def _generated(job: JobSpec) -> Key:
    made = job.generate
    assert made is not None
    return (made.first_event, made.last_event, made.first_lumi, made.last_lumi)


def _read(job: JobSpec) -> Key:
    window = job.files[0]
    return (tuple(sorted(w.file.lfn for w in job.files)), window.first_event or 0, window.last_event)


def expected(jobs: Iterable[dict[str, Any]], *, generates: bool) -> set[Key]:
    if generates:
        return {(j["FirstEvent"], j["LastEvent"], j["FirstLumi"], j["LastLumi"]) for j in jobs}
    return {(tuple(sorted(j["files"])), j["FirstEvent"] or 0, j["LastEvent"]) for j in jobs}


@pytest.mark.parametrize("case", OURS, ids=[case["case"] for case in OURS])
def test_same_jobs_as_wmcore(case: dict[str, Any]) -> None:
    generates = case["files"][0]["lfn"].startswith("MCFakeFile")
    assert planned(case) == expected(case["jobs"], generates=generates)


def test_the_oracle_has_cases_for_both_algorithms() -> None:
    assert {case["algo"] for case in OURS} == {"FileBased", "EventBased"}
    assert len(OURS) >= 9
