"""All four algorithms give the jobs WMCore gives, compared as sets.

`oracle.json` and `oracle_more.json` hold inputs and the jobs WMCore's own splitters made of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dags_app.planning.splitters import SPLITTERS, split
from dags_app.planning.splitters.event_based import split_generation
from dags_app.planning.types import EventBudget, FileSpec, JobSpec
from dags_app.states import SplittingAlgo

Case = dict[str, Any]
Key = tuple[Any, ...]
HERE = Path(__file__).parent
CASES: list[Case] = [
    case
    for name in ("oracle.json", "oracle_more.json")
    for case in json.loads((HERE / name).read_text())["cases"]
]
# Counts lumis until events_per_job is passed, where EventAwareLumiBased stops before; not supported.
NOT_OFFERED = "EventAwareLumiByWork"
OURS = [case for case in CASES if case["algo"] != NOT_OFFERED]


def generates(case: Case) -> bool:
    return bool(case["files"][0]["lfn"].startswith("MCFakeFile"))


def planned(case: Case) -> list[JobSpec]:
    if generates(case):
        result = case["files"][0]
        budget = EventBudget(result["first_event"], min(result["runs"]["1"]), result["events"])
        return list(split_generation(budget, case["params"], frozenset(result["locations"])))
    files = [_file(result) for result in case["files"]]
    time_per_event_sec = case["performance"]["timePerEvent"]
    return list(
        split(SplittingAlgo(case["algo"]), files, case["params"], time_per_event_sec=time_per_event_sec)
    )


def _file(record: dict[str, Any]) -> FileSpec:
    lumis = [(int(run), lumi, lumi) for run, lumis in record["runs"].items() for lumi in lumis]
    return FileSpec(
        lfn=record["lfn"],
        events=record["events"],
        size_bytes=record["size"],
        sites=frozenset(record["locations"]),
        lumis=tuple(lumis),
    )


def ours(case: Case) -> Counter[Key]:
    return Counter((*_input(case, job), _cost(case, job), job.failed_code) for job in planned(case))


def _input(case: Case, job: JobSpec) -> Key:
    if job.generate is not None:
        made = job.generate
        return (made.first_event, made.last_event, made.first_lumi, made.last_lumi, made.run)
    window = job.files[0]
    first = window.first_event
    if case["algo"] == "EventBased":
        first = first or 0
    mask = sorted((str(run), first, last) for run, first, last in job.mask or ())
    return (frozenset(w.file.lfn for w in job.files), first, window.last_event, tuple(mask))


def _cost(case: Case, job: JobSpec) -> Key:
    """Return time, disk and memory as WMCore calculates them, to compare the events of the jobs, too."""
    result = case["performance"]
    return (
        job.events * result["timePerEvent"],
        job.events * result["sizePerEvent"],
        result["memoryRequirement"],
    )


def theirs(case: Case) -> Counter[Key]:
    return Counter(
        (*_expected_input(case, job), _expected_cost(job), job["failedErrCode"]) for job in case["jobs"]
    )


def _expected_input(case: Case, job: dict[str, Any]) -> Key:
    if generates(case):
        return tuple(job[key] for key in ("FirstEvent", "LastEvent", "FirstLumi", "LastLumi", "FirstRun"))
    mask = sorted((run, first, last) for run, lumis in job["runAndLumis"].items() for first, last in lumis)
    return (frozenset(job["files"]), job["FirstEvent"], job["LastEvent"], tuple(mask))


def _expected_cost(job: dict[str, Any]) -> Key:
    return (
        job["estimatedJobTime"],
        job["estimatedDiskUsage"],
        job["estimatedMemoryUsage"],
    )


@pytest.mark.parametrize("case", OURS, ids=[case["case"] for case in OURS])
def test_same_jobs_as_wmcore(case: Case) -> None:
    assert ours(case) == theirs(case)


def test_a_failed_job_names_the_bad_file() -> None:
    failed = [job for case in OURS for job in planned(case) if job.failed]
    assert failed
    assert all(job.files[0].file.lfn in job.failed_reason for job in failed)


def having(*keys: str) -> Sequence[Case]:
    return [case for case in OURS if any(case["params"].get(key) for key in keys)]


def test_the_oracle_has_cases_of_every_kind() -> None:
    assert {case["algo"] for case in OURS} == set(SPLITTERS)
    kinds = {
        "masks": having("runs"),
        "run lists": having("runWhitelist"),
        "early stops": having("total_files", "total_lumis", "total_events"),
        "corrected lumis": having("applyLumiCorrection"),
        "file boundaries": having("halt_job_on_file_boundaries"),
        "several places": [c for c in OURS if len({tuple(f["locations"]) for f in c["files"]}) > 1],
        "several runs in a file": [c for c in OURS if any(len(f["runs"]) > 1 for f in c["files"])],
        "no lumis": [c for c in OURS if any(not f["runs"] for f in c["files"])],
        "failed jobs": [c for c in OURS if any(job["failedOnCreation"] for job in c["jobs"])],
        "generation": [c for c in OURS if generates(c)],
    }
    assert {kind: len(cases) for kind, cases in kinds.items() if len(cases) < 5} == {}


def test_algorithms_left_out_cannot_be_requested() -> None:
    assert NOT_OFFERED not in set(SplittingAlgo)
    assert len(CASES) - len(OURS) == 2
