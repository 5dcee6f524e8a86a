"""Output datasets: those listed, else derived by rule; always legal, never the input."""

from __future__ import annotations

from typing import Any

import pytest
from document_examples import MONTE_CARLO, OWN, RERECO, STEP_CHAIN, TASK_CHAIN, changed, in_step

from requests_app.documents import OutputSpec, next_version, read_document
from wms2_project.errors import InvalidInput
from wms2_project.grammar import Name, matches


def outputs(raw: Any) -> list[str]:
    return [output.dataset for output in read_document(raw).output_datasets]


def test_listed_datasets_stand_once_each_with_their_directories() -> None:
    listed = ["/Muons/Run2031A-Skim-First-v1/AOD", "/Muons/Plain/AOD", "/Muons/Plain/AOD"]

    assert read_document(changed(OWN, output_datasets=listed)).output_datasets == (
        OutputSpec(
            dataset="/Muons/Run2031A-Skim-First-v1/AOD",
            merged_lfn_base="/store/data/Run2031A/Muons/AOD/Skim-First-v1",
            unmerged_lfn_base="/store/unmerged/Run2031A/Muons/AOD/Skim-First-v1",
        ),
        OutputSpec("/Muons/Plain/AOD", "/store/data/Plain/Muons/AOD", "/store/unmerged/Plain/Muons/AOD"),
    )


def test_naming_fields_left_out_come_from_the_first_listed_dataset() -> None:
    raw = {"request_name": "r", "total_events": 5, "output_datasets": ["/Toys/Sim2031-Fast-Sim-v7/GEN-SIM"]}

    spec = read_document(raw)

    assert (spec.primary_dataset, spec.acquisition_era, spec.campaign) == ("Toys", "Sim2031", "Sim2031")
    assert (spec.processing_string, spec.processing_version) == ("Fast-Sim", 7)


def test_stated_naming_fields_win_over_the_listed_dataset() -> None:
    spec = read_document(changed(OWN, processing_version=3, processing_string="Other"))

    assert (spec.processing_version, spec.processing_string) == (3, "Other")


def test_one_dataset_is_derived_per_kept_task() -> None:
    assert outputs(TASK_CHAIN) == [
        "/ToyTops/Default2031-Two-v1/GEN-SIM-RAW",
        "/ToyTops/Default2031-Three-v1/AODSIM",
    ]
    assert outputs(STEP_CHAIN) == [
        "/Photons/Run2031C-Slim-v4/MINIAOD",
        "/Photons/Run2031CNano-Slimmer-v4/NANOAOD",
    ]


def test_request_is_named_by_its_first_kept_output() -> None:
    spec = read_document(TASK_CHAIN)

    assert (spec.acquisition_era, spec.processing_string, spec.primary_dataset) == (
        "Default2031",
        "Two",
        "ToyTops",
    )


@pytest.mark.parametrize(
    ("tier_read", "tier_written"),
    [
        ("RAW", "AOD"),
        ("AOD", "MINIAOD"),
        ("MINIAOD", "NANOAOD"),
        ("GEN-SIM", "GEN-SIM-RAW"),
        ("GEN-SIM-RAW", "AODSIM"),
        ("AODSIM", "MINIAODSIM"),
        ("MINIAODSIM", "NANOAODSIM"),
        ("DQMIO", "DQM"),
        ("USER", "USER"),
        ("FEVT", "AOD"),
        ("GEN-SIM-FUTURE", "AODSIM"),
    ],
)
def test_tier_follows_the_one_read(tier_read: str, tier_written: str) -> None:
    raw = changed(RERECO, InputDataset=f"/Electrons/Run2031B-v1/{tier_read}")

    assert outputs(raw) == [f"/Electrons/Run2031B-Again-v2/{tier_written}"]


@pytest.mark.parametrize(
    ("era", "tier"),
    [
        ("Sim2031wmLHEGEN", "GEN-SIM"),
        ("Toys2031wmLHEGEN", "GEN"),
        ("Toys2031LHE", "LHE"),
        ("Toys2031DIGIPremix", "GEN-SIM-RAW"),
        ("Toys2031Premix", "PREMIX"),
        ("Toys2031HLT", "GEN-SIM-RAW"),
        ("Toys2031RECO", "AODSIM"),
        ("Toys2031MiniAODv2", "MINIAODSIM"),
        ("Toys2031NanoAODv2", "NANOAODSIM"),
        ("Toys2031ALCA", "ALCARECO"),
        ("Toys2031", "AODSIM"),
    ],
)
def test_tier_of_generated_events_is_hinted_by_the_era(era: str, tier: str) -> None:
    assert outputs(changed(MONTE_CARLO, AcquisitionEra=era)) == [f"/ToyJets_Pt-30/{era}-Toys-v1/{tier}"]


def test_user_data_keeps_its_tier_regardless_of_the_era() -> None:
    raw = changed(RERECO, InputDataset="/Mine/Test-v1/USER", AcquisitionEra="MiniAOD2031")

    assert outputs(raw) == ["/Mine/MiniAOD2031-Again-v2/USER"]


def test_module_read_by_the_next_task_names_the_tier() -> None:
    assert outputs(in_step(TASK_CHAIN, "Task1", KeepOutput=True))[0] == "/ToyTops/Sim2031-One-v1/GEN-SIM"


def test_transient_output_is_not_kept() -> None:
    raw = in_step(TASK_CHAIN, "Task2", TransientOutputModules=["PREMIXRAWoutput"], KeepOutput=True)

    assert outputs(raw) == ["/ToyTops/Default2031-Three-v1/AODSIM"]


def test_equal_names_are_distinguished_by_the_task() -> None:
    raw = changed(
        in_step(TASK_CHAIN, "Task2", ProcessingString="Same", InputFromOutputModule=..., TaskName="RecoA"),
        Task3={"TaskName": "RecoB", "ProcessingString": "Same", "InputTask": "RecoA"},
    )

    assert outputs(raw) == [
        "/ToyTops/Default2031-Same-v1/AODSIM",
        "/ToyTops/Default2031-Same_RecoB-v1/AODSIM",
    ]


def test_primary_is_the_task_s_own_else_its_parent_s() -> None:
    inherited = changed(TASK_CHAIN, PrimaryDataset="Unused")
    renamed = in_step(TASK_CHAIN, "Task2", PrimaryDataset="Renamed")

    assert {name.split("/")[1] for name in outputs(inherited)} == {"ToyTops"}
    assert {name.split("/")[1] for name in outputs(renamed)} == {"Renamed"}


def test_string_may_be_missing() -> None:
    assert outputs(changed(RERECO, ProcessingString=...)) == ["/Electrons/Run2031B-v2/AOD"]


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (changed(OWN, output_datasets=["/Muons/Run2031A-v1/RAW"]), "output_datasets"),
        (
            changed(RERECO, InputDataset="/E/Run2031B-Again-v2/USER"),
            "ProcessingVersion",
        ),
        (changed(RERECO, AcquisitionEra=...), "AcquisitionEra"),
        (changed(OWN, output_datasets=..., acquisition_era=...), "acquisition_era"),
        (changed(RERECO, ProcessingString="x" * 195), "ProcessingString"),
        (changed(RERECO, MergedLFNBase="/store/" + "x" * 400), "MergedLFNBase"),
        (changed(RERECO, KeepOutput=False), "KeepOutput"),
        (in_step(TASK_CHAIN, "Task3", KeepOutput="yes"), "Task3.KeepOutput"),
        (in_step(TASK_CHAIN, "Task1", PrimaryDataset=...), "Task1.PrimaryDataset"),
        (in_step(TASK_CHAIN, "Task3", ProcessingVersion=0), "Task3.ProcessingVersion"),
        (
            in_step(in_step(TASK_CHAIN, "Task2", KeepOutput=False), "Task3", KeepOutput=False),
            "Task3.KeepOutput",
        ),
    ],
)
def test_output_that_cannot_be_named_is_refused(raw: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read_document(raw)

    assert field in error.value.fields


def test_next_version_moves_every_output_and_links_back() -> None:
    spec = read_document(
        changed(
            OWN, output_datasets=["/Muons/Run2031A-First-v1/AOD", "/Muons/Other-v9/AOD", "/Muons/Plain/AOD"]
        )
    )

    renewed = next_version(spec, request_name="ana_again")

    assert [output.dataset for output in renewed.output_datasets] == [
        "/Muons/Run2031A-First-v2/AOD",
        "/Muons/Other-v10/AOD",
        "/Muons/Plain-v2/AOD",
    ]
    assert renewed.output_datasets[0].merged_lfn_base == "/store/data/Run2031A/Muons/AOD/First-v2"
    assert (renewed.request_name, renewed.previous_version_request) == ("ana_again", "ana_Muons_2031A_v1")
    assert renewed.processing_version == 2
    assert all(matches(Name.DATASET, output.dataset) for output in renewed.output_datasets)
    assert read_document(renewed.to_document()) == renewed
