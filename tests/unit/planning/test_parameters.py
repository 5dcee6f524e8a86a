"""Splitting parameters: both spellings; invalid values are refused by name."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from dags_app.planning.parameters import Parameters, read_parameters
from dags_app.planning.splitters import SPLITTERS
from dags_app.states import SplittingAlgo
from wms2_project.errors import InvalidInput


def test_absent_parameters_have_the_defaults_of_wmcore() -> None:
    assert read_parameters({"include_parents": False, "lumis_per_job": None}) == Parameters(
        job_time_limit=172_800,
        split_on_run=True,
        halt_job_on_file_boundaries=False,
        apply_lumi_correction=False,
    )


def test_both_spellings_mean_the_same() -> None:
    own = {"split_on_run": False, "apply_lumi_correction": True, "allow_creation_failure": False}
    wmcore = {"splitOnRun": False, "applyLumiCorrection": True, "allowCreationFailure": False}
    assert read_parameters(own) == read_parameters(wmcore) == read_parameters(own | wmcore)


def test_two_spellings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidInput, match="splitOnRun"):
        read_parameters({"split_on_run": True, "splitOnRun": False})


@pytest.mark.parametrize("name", ["total_files", "total_lumis", "total_events"])
def test_zero_or_an_absent_limit_means_no_limit(name: str) -> None:
    assert getattr(read_parameters({name: 0}), name) is None
    assert getattr(read_parameters({}), name) is None
    assert getattr(read_parameters({name: 7}), name) == 7


COUNTS = ["files_per_job", "events_per_job", "events_per_lumi", "lumis_per_job", "job_time_limit"]
LIMITS = ["total_files", "total_lumis", "total_events"]
FLAGS = ["split_on_run", "halt_job_on_file_boundaries", "apply_lumi_correction"]
WRONG: list[tuple[str, Any]] = [
    *((name, value) for name in COUNTS for value in (0, -1, math.nan, math.inf, 1.5, "8", True, [1])),
    *((name, value) for name in LIMITS for value in (-1, math.nan, "8", True)),
    *((name, value) for name in FLAGS for value in ("false", 2, math.nan, [1])),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_an_invalid_parameter_is_refused_with_its_name_and_the_cure(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=name) as refused:
        read_parameters({name: value})
    assert set(refused.value.fields) == {name}
    assert refused.value.cure


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_a_time_per_event_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidInput, match="time_per_event_sec"):
        read_parameters({}, time_per_event_sec=seconds)


def test_every_splitter_declares_its_size_and_its_total_among_the_parameters() -> None:
    known = {knob.name for knob in fields(Parameters)}
    declared = {(splitter.size, splitter.total) for splitter in SPLITTERS.values()}
    assert {name for pair in declared for name in pair} <= known
    assert SPLITTERS.keys() == set(SplittingAlgo)
