"""Every accepted format gives a spec; every other document is refused with the cure."""

from __future__ import annotations

from typing import Any

import pytest
from document_examples import (
    ALL,
    DUMP,
    MONTE_CARLO,
    OWN,
    RERECO,
    STEP_CHAIN,
    TASK_CHAIN,
    TEMPLATE,
    changed,
    in_step,
)

from dags_app.states import SplittingAlgo
from requests_app.documents import (
    Allocation,
    Backend,
    read_document,
)
from requests_app.states import CleanupPolicy
from wms2_project.errors import InvalidInput


def refused(raw: Any, **options: Any) -> dict[str, str]:
    with pytest.raises(InvalidInput) as error:
        read_document(raw, **options)
    return error.value.fields


@pytest.mark.parametrize("shape", ALL)
def test_every_shape_is_accepted(shape: str) -> None:
    spec = read_document(ALL[shape])

    assert spec.request_name
    assert spec.output_datasets


def test_own_field_names_are_taken_over() -> None:
    spec = read_document(OWN)

    assert spec.request_name == "ana_Muons_2031A_v1"
    assert spec.requestor_dn == "/DC=org/DC=example/CN=Ana O'Neil"
    assert (spec.group, spec.campaign, spec.prep_id) == ("muons", "Muons2031", "MUO-2031A-00001")
    assert (spec.priority, spec.memory_mb, spec.cores) == (250_000, 2000, 4)
    assert (spec.time_per_event_sec, spec.size_per_event_kb) == (2.5, 40.0)
    assert spec.input_dataset == "/Muons/Run2031A-v1/RAW"
    assert spec.secondary_input_datasets == ("/Noise/Run2031-Mix-v1/PREMIX",)
    assert (spec.site_whitelist, spec.site_blacklist) == (("T1_US_FNAL", "T2_CH_CERN"), ("T2_DE_DESY",))
    assert spec.splitting_algo is SplittingAlgo.FILE_BASED
    assert (spec.allocation, spec.wms_backend) == (Allocation.PUSH, Backend.WMS2)
    assert spec.cleanup_policy is CleanupPolicy.IMMEDIATE_CLEANUP
    assert spec.callback_url == "https://hooks.example.org:8443/done"
    assert spec.payload_config == OWN["payload_config"]


def test_reqmgr2_field_names_are_taken_over() -> None:
    spec = read_document(RERECO)

    assert (spec.requestor, spec.requestor_dn, spec.priority) == ("bob", "", 90_000)
    assert (spec.memory_mb, spec.cores, spec.scram_arch) == (7800, 8, "el9_amd64_gcc14")
    assert (spec.acquisition_era, spec.processing_string, spec.processing_version) == ("Run2031B", "Again", 2)
    assert spec.site_whitelist == ("T2_CH_CERN",)
    assert spec.merged_lfn_base == "/store/data"
    assert spec.target_merged_size_kb == 2 * 1024**2
    assert spec.global_tag == "201X_data_v3::All"


def test_payload_gets_its_parameters_and_no_records_about_people() -> None:
    payload = read_document(RERECO).payload_config

    assert payload == {
        "RequestType": "ReReco",
        "CMSSWVersion": "CMSSW_20_1_0_patch2",
        "ScramArch": ["el9_amd64_gcc14", "el8_amd64_gcc12"],
        "GlobalTag": "201X_data_v3::All",
        "ConfigCacheID": "deadbeef01",
        "Multicore": 8,
        "Scenario": "pp",
    }


def test_payload_keeps_tasks_verbatim_and_its_own_values_win() -> None:
    payload = read_document(
        changed(TASK_CHAIN, PayloadConfig={"RequestType": "toy", "x-OVERRIDE-ME": "y-OVERRIDE-ME"})
    )

    assert payload.payload_config["Task1"] == TASK_CHAIN["Task1"]
    assert payload.payload_config["RequestType"] == "toy"
    assert payload.payload_config["x-OVERRIDE-ME"] == "y-OVERRIDE-ME"


def test_request_type_decides_nothing() -> None:
    one, other = read_document(RERECO), read_document(changed(RERECO, RequestType="Whatever"))

    assert changed(one.to_document(), payload_config=0) == changed(other.to_document(), payload_config=0)


def test_reading_does_not_change_the_document_and_shares_nothing() -> None:
    raw = changed(OWN)

    spec = read_document(raw)
    raw["payload_config"]["steps"].append("later")

    assert spec.payload_config["steps"] == ["reco"]


# --- templates -------------------------------------------------------------------------------------------


def test_assigned_values_win_and_placeholders_count_as_absent() -> None:
    spec = read_document(TEMPLATE)

    assert spec.processing_version == 19
    assert spec.merged_lfn_base == "/store/backfill/1"
    assert spec.acquisition_era == "Run2031B"
    assert spec.site_whitelist == ("T2_CH_CERN",)
    assert spec.site_blacklist == ("T2_DE_DESY",)
    assert spec.campaign == "Run2031B"
    assert "Team" not in spec.payload_config


def test_overrides_beat_assignment_and_assignment_beats_creation() -> None:
    template = changed(
        TEMPLATE, assignRequest={"RequestPriority": 5, "Group": "assigned", "Scenario": "cosmics"}
    )

    spec = read_document(template, overrides={"priority": 7})

    assert (spec.priority, spec.group) == (7, "assigned")
    assert spec.payload_config["Scenario"] == "cosmics"


def test_template_fields_are_named_with_their_part() -> None:
    bad = changed(
        TEMPLATE,
        createRequest=changed(TEMPLATE["createRequest"], Memory=-1),
        assignRequest={"ProcessingVersion": "new"},
    )

    assert set(refused(bad)) == {"createRequest.Memory", "assignRequest.ProcessingVersion"}


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"assignRequest": {}}, "createRequest"),
        ({"createRequest": []}, "createRequest"),
        ({"createRequest": RERECO, "assignRequest": "x"}, "assignRequest"),
        ({"createRequest": RERECO, "Memory": 5}, "Memory"),
    ],
)
def test_broken_template_is_refused(raw: Any, field: str) -> None:
    assert field in refused(raw)


def test_template_for_a_chain_resolves_values_keyed_by_task() -> None:
    template = {
        "createRequest": changed(TASK_CHAIN, RequestName=...),
        "assignRequest": {
            "AcquisitionEra": {"ToyGenSim": "AcquisitionEra-OVERRIDE-ME", "ToyDigi": "Assigned2031"},
            "ProcessingVersion": {"ToyGenSim": 7, "ToyDigi": 8},
        },
    }

    outputs = [output.dataset for output in read_document(template).output_datasets]

    assert outputs == [
        "/ToyTops/Assigned2031-Two-v8/GEN-SIM-RAW",
        "/ToyTops/Default2031-Three-v1/AODSIM",
    ]


# --- dumps -----------------------------------------------------------------------------------------------


def test_dump_of_one_is_the_document_itself() -> None:
    assert read_document(DUMP) == read_document(RERECO)
    assert read_document({"result": [DUMP]}) == read_document(RERECO)


def test_dump_names_a_document_without_a_name() -> None:
    assert read_document({"outer_name": changed(RERECO, RequestName=...)}).request_name == "outer_name"


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"other_name": RERECO}, "RequestName"),
        ({"bad name": changed(RERECO, RequestName=...)}, "bad name"),
        ({"a": RERECO, "b": RERECO}, "document"),
        ({"result": []}, "result"),
        ({"result": [DUMP, DUMP]}, "result"),
        ({"result": [[]]}, "document"),
        ({}, "document"),
        ([], "document"),
        (None, "document"),
        ("text", "document"),
    ],
)
def test_unusable_dump_or_document_is_refused(raw: Any, field: str) -> None:
    assert set(refused(raw)) == {field}


def test_several_requests_are_sent_to_the_batch() -> None:
    several = {"eve_Toys_v1": MONTE_CARLO, **DUMP}

    assert "batch" in refused(several)["document"]


# --- chains ----------------------------------------------------------------------------------------------


def test_first_task_decides_input_and_splitting() -> None:
    spec = read_document(STEP_CHAIN)

    assert spec.input_dataset == "/Photons/Run2031C-v2/AOD"
    assert spec.splitting_algo is SplittingAlgo.LUMI_BASED
    assert spec.splitting_params.lumis_per_job == 15
    assert spec.splitting_params.lumi_mask == {77: ((1, 9),)}
    assert spec.splitting_params.include_parents


def test_one_job_gets_the_resources_of_the_whole_chain() -> None:
    tasks, steps = read_document(TASK_CHAIN), read_document(STEP_CHAIN)

    assert (tasks.memory_mb, tasks.cores) == (6000, 4)
    assert tasks.time_per_event_sec == 20 + 9.5 + 1
    assert tasks.size_per_event_kb == 100
    assert (steps.memory_mb, steps.time_per_event_sec) == (2500, 3)


def test_size_adds_up_over_the_tasks_that_are_kept() -> None:
    raw = in_step(in_step(TASK_CHAIN, "Task1", SizePerEvent=7), "Task2", SizePerEvent=30)

    assert read_document(raw).size_per_event_kb == 30 + 100


def test_time_keyed_by_task_adds_up() -> None:
    assert read_document(changed(STEP_CHAIN, TimePerEvent={"Mini": 2, "Nano": 0.5})).time_per_event_sec == 2.5


def test_task_missing_from_keyed_values_uses_its_own_then_the_default() -> None:
    raw = in_step(
        changed(STEP_CHAIN, Memory={"Nano": 900}, ProcessingString={"Nano": "X"}), "Step1", Memory=70
    )

    spec = read_document(raw, defaults={"ProcessingString": "Fallback"})

    assert spec.memory_mb == 900
    assert [o.dataset.split("-")[1] for o in spec.output_datasets] == ["Fallback", "X"]


def test_pileup_of_every_task_is_collected_once() -> None:
    raw = in_step(TASK_CHAIN, "Task3", MCPileup="/Other/Run2031-Mix-v1/PREMIX")

    assert read_document(raw).secondary_input_datasets == (
        "/Noise/Run2031-Mix-v1/PREMIX",
        "/Other/Run2031-Mix-v1/PREMIX",
    )


def test_overrides_beat_every_task() -> None:
    spec = read_document(TASK_CHAIN, overrides={"memory_mb": 900, "TimePerEvent": 5, "processing_version": 3})

    assert (spec.memory_mb, spec.time_per_event_sec, spec.processing_version) == (900, 5.0, 3)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (changed(TASK_CHAIN, Task2=...), "Task2"),
        (changed(TASK_CHAIN, Task2=[]), "Task2"),
        (changed(TASK_CHAIN, TaskChain=2), "Task3"),
        (changed(TASK_CHAIN, TaskChain="three"), "TaskChain"),
        (changed(TASK_CHAIN, TaskChain=51), "TaskChain"),
        (changed(TASK_CHAIN, Step1={}), "StepChain"),
        (in_step(TASK_CHAIN, "Task2", TaskName="ToyGenSim"), "Task2.TaskName"),
        (in_step(TASK_CHAIN, "Task2", TaskName="bad name"), "Task2.TaskName"),
        (in_step(TASK_CHAIN, "Task2", InputTask="ToyReco"), "Task2.InputTask"),
        (in_step(TASK_CHAIN, "Task2", InputTask=["x"]), "Task2.InputTask"),
        (in_step(TASK_CHAIN, "Task2", InputDataset="/A/B-v1/RAW"), "Task2.InputDataset"),
        (in_step(TASK_CHAIN, "Task2", Memory="much"), "Task2.Memory"),
        (in_step(STEP_CHAIN, "Step1", InputDataset="/A"), "Step1.InputDataset"),
        (in_step(STEP_CHAIN, "Step1", InputDataset=...), "Step1.InputDataset"),
        (changed(STEP_CHAIN, Memory={"Mini": 1, "Micro": 2}), "Memory"),
        (changed(STEP_CHAIN, Memory={"Mini": -1}), "Memory.Mini"),
        (changed(RERECO, Memory={"Mini": 1}), "Memory"),
    ],
)
def test_a_broken_chain_names_the_field_to_correct(raw: Any, field: str) -> None:
    fields = refused(raw)

    assert field in fields
    assert all(message.startswith(f"{path}: ") for path, message in fields.items())


@pytest.mark.parametrize("field", ["ACDCServer", "ACDCDatabase", "CollectionName", "InitialTaskPath"])
def test_resubmission_is_refused_by_name_before_any_other_error(field: str) -> None:
    raw = changed(RERECO, Memory=-1, OriginalRequestName="bob_first", **{field: "https://elsewhere"})

    fields = refused(raw)

    assert set(fields) == {field, "OriginalRequestName"}
    assert "restart the original request" in fields[field]


def test_a_resubmission_type_without_other_fields_is_refused() -> None:
    assert set(refused(changed(RERECO, RequestType="Resubmission"))) == {"RequestType"}


# --- names of fields ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("memori_mb", "did you mean memory_mb?"),
        ("xyzzy", "leave it out"),
        ("", "leave it out"),
        ("status", "set by WMS2"),
        ("superseded_by_request", "set by WMS2"),
    ],
)
def test_unknown_own_field_is_refused(field: str, hint: str) -> None:
    fields = refused({**OWN, field: 1})

    assert len(fields) == 1
    assert hint in next(iter(fields.values()))


def test_unknown_reqmgr2_field_is_passed_to_the_payload() -> None:
    assert read_document(changed(RERECO, BrandNewThing=[1])).payload_config["BrandNewThing"] == [1]


def test_unknown_override_or_default_is_refused() -> None:
    assert set(refused(OWN, overrides={"Memry": 1}, defaults={"nothing": 1})) == {"Memry", "nothing"}


def test_two_spellings_that_disagree_are_refused() -> None:
    assert set(refused(changed(OWN, Memory=1))) == {"Memory"}
    assert read_document(changed(OWN, Memory=2000)).memory_mb == 2000


def test_defaults_apply_only_to_absent_fields() -> None:
    spec = read_document(TEMPLATE, defaults={"requestor": "gus", "Group": "new", "RequestPriority": 1})

    assert (spec.requestor, spec.group, spec.priority) == ("gus", "PPD", 90_000)


def test_all_errors_are_reported_together() -> None:
    raw = changed(OWN, priority=-1, memory_mb=True, cmssw_version="x", site_whitelist=["nowhere"], bogus=1)

    assert set(refused(raw)) == {"priority", "memory_mb", "cmssw_version", "site_whitelist", "bogus"}
