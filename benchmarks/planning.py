"""B1: split a large dataset, with a lumi mask, and group the jobs, as `build_plan` does."""

from __future__ import annotations

import gc
from time import process_time
from typing import Any

from benchmarks import dataset
from benchmarks.harness import Measured, alternate, timed
from benchmarks.run import Run
from dags_app.planning.plan import build_plan
from dags_app.planning.splitters import SPLITTERS
from dags_app.planning.types import Estimate, FileSpec, Plan, PlanSpec
from dags_app.states import SplittingAlgo

ESTIMATE = Estimate(time_per_event_sec=1.0, memory_mb=2000, size_per_event_kb=1.5, source="hints")
WANTED = (SplittingAlgo.EVENT_AWARE_LUMI_BASED, SplittingAlgo.LUMI_BASED, SplittingAlgo.FILE_BASED)
FILES = 100_000


def algorithm() -> SplittingAlgo:
    """Return the most expensive algorithm of this version."""
    return next(algo for algo in WANTED if algo in SPLITTERS)


def parameters(files: int) -> dict[str, Any]:
    """Return the splitting parameters of a request for this number of files."""
    return {
        "files_per_job": 5,
        "lumis_per_job": 100,
        "events_per_job": 5 * dataset.EVENTS_PER_FILE,
        "split_on_run": True,
        "lumi_mask": dataset.mask_of(files),
    }


def plan_spec(algo: SplittingAlgo, params: dict[str, Any]) -> PlanSpec:
    """Return the input of planning for a request."""
    return PlanSpec(
        workflow_id="0b8e5a3c-7a51-4d6a-9a3f-0d5f3c1e2b44",
        request_name="benchmark",
        algo=algo,
        params=params,
        jobs_per_group=8,
        target_merged_size_kb=4_000_000,
    )


def ledger_rows(files: int) -> list[FileSpec]:
    """Return the dataset as ledger rows, without a mask."""
    places: dict[tuple[str, ...], frozenset[str]] = {names: frozenset(names) for names in dataset.PLACES}
    return [
        FileSpec(
            lfn=dataset.lfn_of(number),
            events=dataset.EVENTS_PER_FILE,
            size_bytes=2_000_000_000,
            sites=places[dataset.places_of(number)],
            lumis=dataset.ranges_of(number),
        )
        for number in range(files)
    ]


def plain_pass(files: list[list[tuple[int, int]]]) -> int:
    """Iterate over every lumi once."""
    highest = 0
    for lumis in files:
        for _run, lumi in lumis:
            if lumi > highest:
                highest = lumi
    return highest


def split_and_group(run: Run) -> Measured:
    """B1: split and group, against one pass over the lumis."""
    files = run.size(FILES, 1000)
    plain = [dataset.lumis_of(number) for number in range(files)]
    gc.freeze()  # keep the garbage collector from scanning the two million lumis of the reference
    rows, algo = ledger_rows(files), algorithm()
    spec = plan_spec(algo, parameters(files))
    plans: list[Plan] = []
    pairs = alternate(
        timed(
            lambda: plans.append(build_plan(spec=spec, files=rows, estimate=ESTIMATE)),
            before=plans.clear,
            clock=process_time,
        ),
        timed(lambda: plain_pass(plain), clock=process_time),
        repeat=run.repeat,
    )
    note = f"{algo}: {plans[-1].jobs} jobs in {len(plans[-1].groups)} groups"
    return Measured(value=pairs.ratio, samples=pairs.as_samples(), note=note, spread=pairs.spread)
