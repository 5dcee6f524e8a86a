"""Small inputs for planning tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

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


def a_file(number: int, events: int, sites: tuple[str, ...], runs: dict[int, int]) -> FileSpec:
    lumis = [(run, bit, bit) for run, bits in runs.items() for bit in range(15) if bits >> bit & 1]
    return FileSpec(f"/store/data/f{number}.root", events, 1, frozenset(sites), lumis=tuple(lumis))


# The lumis of a run are the bits of a number: they may overlap, touch, leave gaps, or be missing.
files = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.sampled_from([("T1_US_FNAL",), ("T2_CH_CERN",), ("T1_US_FNAL", "T2_CH_CERN")]),
        st.dictionaries(st.integers(1, 3), st.integers(1, 2**15 - 1), max_size=2),
    ),
    min_size=1,
    max_size=7,
).map(lambda drawn: [a_file(number, *one) for number, one in enumerate(drawn)])
ranges = st.lists(st.builds(lambda a, n: [a, a + n], st.integers(0, 14), st.integers(0, 5)), max_size=3)
selections = st.fixed_dictionaries(
    {},
    optional={
        "lumi_mask": st.dictionaries(st.integers(1, 3).map(str), ranges, max_size=3),
        "run_whitelist": st.lists(st.integers(1, 3), max_size=2),
        "run_blacklist": st.lists(st.integers(1, 3), max_size=1),
    },
)
knobs = st.fixed_dictionaries(
    {
        "files_per_job": st.integers(1, 4),
        "lumis_per_job": st.integers(1, 9),
        "events_per_job": st.integers(1, 300),
        "split_on_run": st.booleans(),
        "gather_runs": st.booleans(),
        "halt_job_on_file_boundaries": st.booleans(),
        "apply_lumi_correction": st.booleans(),
        "job_time_limit": st.sampled_from([50, 172_800]),
    }
)
params = st.builds(lambda chosen, knob: chosen | knob, selections, knobs)
