"""Small inputs for planning tests."""

from __future__ import annotations

from typing import Any

from dags_app.planning.types import Estimate, FileSpec, PlanSpec
from dags_app.states import SplittingAlgo

HINTS = Estimate(time_per_event_sec=12.0, memory_mb=2300, size_per_event_kb=400.0, source="hints")
WORKFLOW_ID = "11111111-1111-4111-8111-111111111111"


def file(
    number: int, *, events: int = 100, sites: tuple[str, ...] = ("T1_US_FNAL",), run: int = 1
) -> FileSpec:
    return FileSpec(
        lfn=f"/store/data/f{number:05d}.root",
        events=events,
        size_bytes=1000,
        sites=frozenset(sites),
        lumis=((run, number + 1, number + 1),),
    )


def spec(algo: SplittingAlgo = SplittingAlgo.FILE_BASED, **params: Any) -> PlanSpec:
    return PlanSpec(
        workflow_id=WORKFLOW_ID,
        request_name="test_request",
        algo=algo,
        params=params,
        jobs_per_group=8,
        target_merged_size_kb=4_000_000,
    )
