"""Property of every splitter, from the worker's view: exactly the selected input is read, once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dags_app.planning.lumis import normalised
from dags_app.planning.selection import Selection
from dags_app.planning.splitters import split
from dags_app.planning.types import FileSpec, JobSpec
from dags_app.states import SplittingAlgo
from sandbox.lumis import LumiRange
from tests.unit.planning.factories import files, params

Params = dict[str, Any]
Lumi = tuple[int, int]


every_algo = st.sampled_from(list(SplittingAlgo))
lumi_algo = st.sampled_from([SplittingAlgo.LUMI_BASED, SplittingAlgo.EVENT_AWARE_LUMI_BASED])


def jobs_of(algo: SplittingAlgo, inputs: Iterable[FileSpec], given_params: Params) -> list[JobSpec]:
    return list(split(algo, inputs, given_params, time_per_event_sec=1.0))


def singles(lumis: Iterable[LumiRange]) -> set[Lumi]:
    return {(run, lumi) for run, first, last in lumis for lumi in range(first, last + 1)}


def wanted(file: FileSpec, given_params: Params) -> set[Lumi]:
    return singles(Selection.of(given_params).wanted(normalised(file.lumis)))


def lumis_read(jobs: Iterable[JobSpec]) -> Counter[tuple[str, Lumi]]:
    """Return the lumis that workers read: those of each window that its own mask, else the job's, allows."""
    read: Counter[tuple[str, Lumi]] = Counter()
    for job in jobs:
        for window in job.files:
            mask = job.mask if window.mask is None else window.mask
            own = singles(window.file.lumis)
            read.update((window.file.lfn, lumi) for lumi in (own if mask is None else own & singles(mask)))
    return read


@given(files, params, st.sampled_from([a for a in SplittingAlgo if a != SplittingAlgo.EVENT_BASED]))
def test_every_selected_lumi_of_every_file_is_read_once(
    inputs: list[FileSpec], given_params: Params, algo: SplittingAlgo
) -> None:
    expected = Counter((file.lfn, lumi) for file in inputs for lumi in wanted(file, given_params))
    assert lumis_read(jobs_of(algo, inputs, given_params)) == expected


@given(files, params)
def test_every_selected_event_is_read_once(inputs: list[FileSpec], given_params: Params) -> None:
    everything = Selection.of(given_params).everything
    chosen = [file for file in inputs if everything or wanted(file, given_params)]
    jobs = jobs_of(SplittingAlgo.EVENT_BASED, inputs, given_params)
    read: Counter[tuple[str, int]] = Counter()
    for job in jobs:
        (window,) = job.files
        assert (
            job.mask is None if everything else singles(job.mask or ()) == wanted(window.file, given_params)
        )
        read.update((window.file.lfn, (window.first_event or 0) + n) for n in range(window.events))
    assert read == Counter((file.lfn, n) for file in chosen for n in range(file.events))
    assert {window.file.lfn for job in jobs for window in job.files} == {file.lfn for file in chosen}


@given(files, params, every_algo)
def test_no_job_mixes_places(inputs: list[FileSpec], given_params: Params, algo: SplittingAlgo) -> None:
    for job in jobs_of(algo, inputs, given_params):
        assert {window.file.sites for window in job.files} == {job.sites}


@given(files, params, every_algo, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    inputs: list[FileSpec], given_params: Params, algo: SplittingAlgo, chance: random.Random
) -> None:
    shuffled = [replace(file, lumis=tuple(chance.sample(file.lumis, len(file.lumis)))) for file in inputs]
    chance.shuffle(shuffled)
    as_ranges = [replace(file, lumis=normalised(file.lumis)) for file in shuffled]

    def seen(some: list[FileSpec]) -> list[Any]:
        jobs = jobs_of(algo, some, given_params)
        return [([(w.file.lfn, w.mask) for w in job.files], job.mask, job.events) for job in jobs]

    assert seen(inputs) == seen(shuffled) == seen(as_ranges) == seen(inputs)


@given(files, params, lumi_algo)
def test_a_job_holds_a_lumi_of_each_file_and_no_more_than_it_may(
    inputs: list[FileSpec], given_params: Params, algo: SplittingAlgo
) -> None:
    for job in jobs_of(algo, inputs, given_params):
        lumis = sum(last - first + 1 for _, first, last in job.mask or ())
        assert lumis >= 1
        if algo == SplittingAlgo.LUMI_BASED:
            assert lumis <= given_params["lumis_per_job"]
        else:
            largest = max(round(w.file.events / len(w.file.lumis)) for w in job.files)
            assert job.events <= max(given_params["events_per_job"], largest)
        if given_params["split_on_run"]:
            assert len({run for run, _, _ in job.mask or ()}) == 1


@given(files, params, lumi_algo)
def test_corrected_lumis_are_in_one_job_of_a_place(
    inputs: list[FileSpec], given_params: Params, algo: SplittingAlgo
) -> None:
    corrected = given_params | {"apply_lumi_correction": True}
    owners = Counter(
        (job.sites, lumi) for job in jobs_of(algo, inputs, corrected) for lumi in singles(job.mask or ())
    )
    assert set(owners.values()) <= {1}


@given(files, params, lumi_algo, st.integers(1, 40))
def test_an_early_stop_takes_the_first_jobs_and_cuts_the_last(
    inputs: list[FileSpec], given_params: Params, algo: SplittingAlgo, total: int
) -> None:
    plain = given_params | {"apply_lumi_correction": False}
    every = [job.mask or () for job in jobs_of(algo, inputs, plain)]
    some = jobs_of(algo, inputs, plain | {"total_lumis": total, "total_events": total})
    if not some:
        assert not every
        return
    assert [job.mask for job in some[:-1]] == every[: len(some) - 1]
    assert singles(some[-1].mask or ()) <= singles(every[len(some) - 1])
    if algo == SplittingAlgo.LUMI_BASED:
        taken = sum(last - first + 1 for job in some for _, first, last in job.mask or ())
        assert taken == min(total, sum(last - first + 1 for mask in every for _, first, last in mask))
    elif len(some) < len(every):
        assert sum(job.events for job in some) >= total > sum(job.events for job in some[:-1])


@given(files, st.integers(1, 9))
def test_total_files_takes_the_first_by_name_wherever_they_are(inputs: list[FileSpec], total: int) -> None:
    jobs = jobs_of(SplittingAlgo.FILE_BASED, inputs, {"files_per_job": 2, "total_files": total})
    names = sorted(window.file.lfn for job in jobs for window in job.files)
    assert names == sorted(file.lfn for file in inputs)[:total]


@given(files, st.integers(0, 900))
def test_total_events_is_never_passed(inputs: list[FileSpec], total: int) -> None:
    limits = {"events_per_job": 70, "total_events": total}
    jobs = jobs_of(SplittingAlgo.EVENT_BASED, inputs, limits)
    offered = sum(file.events for file in inputs)
    assert sum(job.events for job in jobs) == (min(total, offered) if total else offered)
