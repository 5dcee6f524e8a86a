"""Splitting parameters: ReqMgr2's defaults, permitted places, and contradictions."""

from __future__ import annotations

from typing import Any

import pytest
from document_examples import MONTE_CARLO, OWN, RERECO, TASK_CHAIN, changed, in_step

from dags_app.states import SplittingAlgo
from requests_app.documents import SplittingParams, read_document
from requests_app.documents.splitting import fit_events
from wms2_project.errors import InvalidInput


def test_reqmgr2_defaults() -> None:
    spec = read_document(changed(RERECO, SplittingAlgo=...))

    assert spec.splitting_algo is SplittingAlgo.EVENT_AWARE_LUMI_BASED
    assert spec.splitting_params == SplittingParams(
        files_per_job=1,
        events_per_job=12 * 3600 // 4,
        lumis_per_job=8,
        job_time_limit=172_800,
        run_whitelist=(900, 901),
    )


def test_events_per_job_is_fixed_only_when_given() -> None:
    given = read_document(changed(RERECO, EventsPerJob=77)).splitting_params
    derived = read_document(RERECO).splitting_params

    assert (given.events_per_job, given.events_per_job_fixed) == (77, True)
    assert not derived.events_per_job_fixed


@pytest.mark.parametrize(("seconds", "events"), [(864_000, 1), (1e-300, 10**9), (43_200, 1), (100, 432)])
def test_default_events_fill_twelve_hours_within_bounds(seconds: float, events: int) -> None:
    assert read_document(changed(RERECO, TimePerEvent=seconds)).splitting_params.events_per_job == events


def test_the_whole_chain_s_time_counts() -> None:
    params = read_document(TASK_CHAIN).splitting_params

    assert params.events_per_job == 1400  # 43200 s / 30.5 s = 1416, in lumis of 50
    assert params.events_per_lumi == 50


def test_generator_is_split_by_events_regardless_of_its_document() -> None:
    spec = read_document(MONTE_CARLO)

    assert spec.splitting_algo is SplittingAlgo.EVENT_BASED
    assert (spec.splitting_params.events_per_job, spec.splitting_params.events_per_lumi) == (500, 100)


@pytest.mark.parametrize(
    ("per_job", "per_lumi", "wanted", "fitted"),
    [
        (205, 100, 4000, (200, 100)),
        (392, 100, 10_000, (400, 100)),
        (250, 100, 10_000, (300, 100)),
        (80, 100, 10_000, (80, 80)),
        (80, None, 10_000, (80, 80)),
        (1000, 100, 30, (30, 30)),
        (1000, 100, 250, (300, 100)),
        (7, 7, 0, (7, 7)),
    ],
)
def test_jobs_make_whole_lumis(
    per_job: int, per_lumi: int | None, wanted: int, fitted: tuple[int, int]
) -> None:
    assert fit_events(per_job, per_lumi, wanted) == fitted
    assert fit_events(*fitted, wanted) == fitted


def test_own_parameters_are_normalised() -> None:
    params = read_document(OWN).splitting_params

    assert params.files_per_job == 3
    assert params.run_whitelist == (3, 5)
    assert params.block_whitelist == ("/Muons/Run2031A-v1/RAW#0a1b",)
    assert params.lumi_mask == {5: ((1, 9),)}
    assert params.to_json() == {
        "files_per_job": 3,
        "events_per_job": 17_280,
        "events_per_job_fixed": False,
        "lumis_per_job": 8,
        "job_time_limit": 172_800,
        "include_parents": False,
        "split_on_run": True,
        "gather_runs": False,
        "halt_job_on_file_boundaries": False,
        "apply_lumi_correction": False,
        "run_whitelist": [3, 5],
        "block_whitelist": ["/Muons/Run2031A-v1/RAW#0a1b"],
        "lumi_mask": {"5": [[1, 9]]},
    }


def test_parameters_may_be_spelled_as_reqmgr2_does_and_stand_anywhere() -> None:
    inside = read_document(
        changed(RERECO, SplittingParams={"LumisPerJob": 3, "total_files": 9})
    ).splitting_params
    beside = read_document(changed(OWN, splitting_params=..., lumis_per_job=4)).splitting_params

    assert (inside.lumis_per_job, inside.total_files) == (3, 9)
    assert beside.lumis_per_job == 4


def test_splitting_params_win_over_flat_fields_and_overrides_over_both() -> None:
    raw = changed(RERECO, LumisPerJob=1, SplittingParams={"lumis_per_job": 2})

    assert read_document(raw).splitting_params.lumis_per_job == 2
    assert read_document(raw, overrides={"lumis_per_job": 3}).splitting_params.lumis_per_job == 3


def test_early_stop_is_not_the_size_of_the_request() -> None:
    spec = read_document(changed(OWN, splitting_params={"total_events": 5, "total_lumis": 6}))

    assert (spec.splitting_params.total_events, spec.splitting_params.total_lumis) == (5, 6)
    assert spec.total_events is None


def test_ranges_are_sorted_and_joined() -> None:
    mask = {"10": [[8, 9], [1, 3], [4, 5], [2, 2]], "9": [[7, 7]]}

    assert read_document(changed(RERECO, LumiList=mask)).splitting_params.lumi_mask == {
        9: ((7, 7),),
        10: ((1, 5), (8, 9)),
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("files_per_job", 0),
        ("events_per_job", 10**9 + 1),
        ("lumis_per_job", 1.5),
        ("job_time_limit", 0),
        ("include_parents", "yes"),
        ("split_on_run", 1),
        ("halt_job_on_file_boundaries", "no"),
        ("apply_lumi_correction", 0),
        ("events_per_job_fixed", 1),
        ("run_whitelist", [0]),
        ("run_whitelist", [True]),
        ("run_blacklist", ["5"]),
        ("block_whitelist", ["/Muons/Run2031A-v1/RAW"]),
        ("block_whitelist", ["/Other/Run2031A-v1/RAW#0a1b"]),
        ("block_blacklist", ["/Muons/Run2031A-v1/RAW#a\n"]),
        ("total_files", 0),
        ("total_lumis", "all"),
        ("total_events", -1),
        ("lumi_mask", [[1, 2]]),
        ("lumi_mask", {"x": [[1, 2]]}),
        ("lumi_mask", {"0": [[1, 2]]}),
        ("lumi_mask", {"9999999999": [[1, 2]]}),
        ("lumi_mask", {"5": []}),
        ("lumi_mask", {"5": {}}),
        ("lumi_mask", {"5": [1, 2]}),
        ("lumi_mask", {"5": [[1, 2, 3]]}),
        ("lumi_mask", {"5": [[2, 1]]}),
        ("lumi_mask", {"5": [[0, 1]]}),
        ("lumi_mask", {"5": [[1, "2"]]}),
        ("color", 1),
        ("RequestNumEvents", 1),
    ],
)
def test_refused_parameter_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as error:
        read_document(changed(OWN, splitting_params={name: value}))

    assert set(error.value.fields) == {f"splitting_params.{name}"}


def test_events_per_lumi_is_read_for_generators_only() -> None:
    assert read_document(changed(RERECO, EventsPerLumi=5)).splitting_params.events_per_lumi is None
    with pytest.raises(InvalidInput) as error:
        read_document(in_step(TASK_CHAIN, "Task1", EventsPerLumi=-5))

    assert set(error.value.fields) == {"Task1.EventsPerLumi"}


def test_lists_that_contradict_each_other_are_refused() -> None:
    block = "/Electrons/Run2031B-v1/RAW#1"
    raw = changed(RERECO, RunBlacklist=[901], BlockWhitelist=[block], BlockBlacklist=block)

    with pytest.raises(InvalidInput) as error:
        read_document(raw)

    assert set(error.value.fields) == {"RunBlacklist", "BlockBlacklist"}


def test_unknown_algorithm_lists_the_legal_ones() -> None:
    with pytest.raises(InvalidInput) as error:
        read_document(changed(RERECO, SplittingAlgo="Harvest"))

    assert error.value.fields == {
        "SplittingAlgo": "SplittingAlgo: 'Harvest' is unknown; use one of "
        "FileBased, EventBased, LumiBased, EventAwareLumiBased"
    }
