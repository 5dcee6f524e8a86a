"""From a ReqMgr2 document to ROOT files: every shape of CMSSW request, read, pinned and run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags_app.planning.configurations import (
    ConfigurationRefused,
    is_pinned,
    needed_configurations,
    pin_configurations,
    steps_of,
    system_of,
)
from dags_app.planning.payloads import reads_whole_runs
from sandbox.cmssw.config import read_config
from tests.cmssw_world import Node, read_lumi_histogram
from tests.jobs.cmssw.documents import (
    COMMON,
    CONFIGS,
    GENERATES,
    PREMIX,
    RULES,
    configuration,
    generate,
    harvest,
    pinned,
    prepare,
    read,
    rereco,
    step_chain,
    task_chain,
)
from wms2_project.errors import InvalidInput


def test_rereco_writes_every_listed_dataset_and_nothing_else(node: Node) -> None:
    node.processes = True
    spec = read(rereco())
    prepare(node, spec)
    node.read_job([node.add_input("raw", run=380001)])

    report = node.run()

    assert report["error"] == ""
    assert [one["dataset"] for one in report["outputs"]] == rereco()["OutputDatasets"]
    for dataset in rereco()["OutputDatasets"]:
        assert node.events(report, dataset) == [(380001, 1 + n // 10, n + 1) for n in range(40)]


def test_step_chain_with_pileup_and_two_releases(node: Node) -> None:
    spec = read(step_chain())
    prepare(node, spec)
    made = generate(node, spec)

    report = node.run()

    assert report["error"] == ""
    assert node.datasets == ["/ZToMuMu/Run2026A-Test-v1/GEN-SIM-RAW", "/ZToMuMu/Run2026A-Test-v1/AODSIM"]
    assert [node.events(report, dataset) for dataset in node.datasets] == [made, made]


MONTE_CARLO = COMMON | GENERATES | {"RequestType": "MonteCarlo", "ConfigCacheID": "cfg-gen"}
LHE = {"StepName": "GENSIM", "ConfigCacheID": "cfg-lhe", "LheInputFiles": True, **GENERATES}
NANO = {"StepName": "Nano", "ConfigCacheID": "cfg-nano", "InputDataset": "/Z/Era-v1/MINIAODSIM"}
ONE_STEP = COMMON | {"RequestType": "StepChain", "StepChain": 1}
GEN_SIM, LHE_TIER = (f"/ZToMuMu/Run2026A-Test-v1/{tier}" for tier in ("GEN-SIM", "LHE"))


@pytest.mark.parametrize(
    ("document", "written"),
    [
        (MONTE_CARLO | {"OutputDatasets": [GEN_SIM]}, [{"RAWSIMoutput": GEN_SIM}]),
        (
            ONE_STEP | {"Step1": LHE, "OutputDatasets": [GEN_SIM, LHE_TIER]},
            [{"RAWSIMoutput": GEN_SIM, "LHEoutput": LHE_TIER}],
        ),
        (ONE_STEP | {"Step1": NANO}, [{"NANOAODSIMoutput": "/Z/Run2026A-Test-v1/NANOAODSIM"}]),
        (
            task_chain(),
            [{"RAWSIMoutput": GEN_SIM}, {}, {"AODSIMoutput": "/ZToMuMu/Reco2026-Test-v1/AODSIM"}],
        ),
    ],
    ids=["Monte Carlo", "LHE files", "step on a dataset", "transient output"],
)
def test_modules_are_pinned_to_the_datasets_they_write(
    document: dict[str, Any], written: list[dict[str, str]]
) -> None:
    steps = read_config(pinned(read(document))).steps

    assert [dict(step.outputs) for step in steps] == written
    assert [step.lhe for step in steps] == ["LheInputFiles" in str(document)] * len(steps)


def test_two_tasks_read_one(node: Node) -> None:
    raw = task_chain()
    raw["Task3"] |= {"InputTask": "GenSim", "InputFromOutputModule": "RAWSIMoutput"}
    raw["Task2"] |= {"TransientOutputModules": [], "ConfigCacheID": "cfg-raw"}
    spec = read(raw)
    prepare(node, spec)
    made = generate(node, spec)

    report = node.run()

    assert [step.get("parent") for step in steps_of(node.payload)] == [None, 0, 0]
    assert len(node.datasets) == 3
    assert [node.events(report, dataset) for dataset in node.datasets] == [made] * 3


def test_store_results_joins_files_without_a_configuration(node: Node) -> None:
    document = COMMON | {
        "RequestType": "StoreResults",
        "InputDataset": "/Z/Ana-v1/USER",
        "ScramArch": "slc6_amd64_gcc530",
    }
    spec = read(document)
    assert needed_configurations(spec.payload_config) == []
    prepare(node, spec)
    node.read_job([node.add_input("a"), node.add_input("b", first_event=41)])

    report = node.run()

    assert report["error"] == ""
    assert [event for _, _, event in node.events(report, node.datasets[0])] == list(range(1, 81))


@pytest.mark.parametrize(
    ("unit", "run", "name"),
    [
        ("byRun", 380306, "JetMET0__Run2026A-Test-v1__DQMIO"),
        ("multiRun", 999999, "JetMET0__Run2026A-Test-v1-380306-380307__DQMIO"),
    ],
)
def test_harvest_saves_the_histograms_of_the_planned_lumis_once(
    node: Node, unit: str, run: int, name: str
) -> None:
    spec = read(harvest(DQMHarvestUnit=unit))
    prepare(node, spec)
    files = [node.add_input("a", run=380306), node.add_input("b", run=380306, first_lumi=5, first_event=41)]
    mask = {"380306": [[2, 6]]}
    if unit == "multiRun":
        files.append(node.add_input("c", run=380307))
        mask["380307"] = [[1, 1]]
    node.read_job(files, mask=mask)

    report = node.run()

    assert report["error"] == ""
    (output,) = report["outputs"]
    assert output["dataset"] == "/JetMET0/Run2026A-Test-v1/DQM"
    assert output["lumis"] == mask
    found, entries = read_lumi_histogram(node.path(output["lfn"]))
    assert found == run
    assert sum(entries.values()) == 10 * sum(last - first + 1 for [[first, last]] in mask.values())
    tweaks = json.loads((node.root / "scratch/proc_000000/work/step0/tweak.json").read_text())
    assert name in tweaks["process.dqmSaver.workflow"].replace("/", "__")
    assert "process.source.skipEvents" not in tweaks


def test_harvest_that_saves_nothing_fails(node: Node) -> None:
    spec = read(harvest())
    prepare(node, spec, {"cfg-harvest": configuration("cfg-harvest", {}, source="DQMRootSource")})
    node.read_job([node.add_input("a")])

    report = node.run()

    assert (report["exit_code"], report["outputs"]) == (60302, [])
    assert "dqmSaver saved 0 files" in report["error"]


def test_harvest_has_a_job_per_run_without_a_pilot_or_a_merge() -> None:
    spec = read(harvest(SplittingAlgo="FileBased", LumisPerJob=8, FilesPerJob=1))

    assert spec.splitting_algo == "LumiBased"
    assert (spec.splitting_params.gather_runs, spec.splitting_params.lumis_per_job) == (True, 1_000_000)
    assert reads_whole_runs(spec.payload_config)
    assert not RULES.joins(spec.payload_config)
    assert read(spec.to_document()) == spec


def test_steps_carry_what_their_cmsrun_needs() -> None:
    first, second, third = steps_of(read(step_chain()).payload_config)

    assert first == {
        "name": "GENSIM",
        "release": "CMSSW_14_0_19",
        "arch": "el8_amd64_gcc12",
        "config_id": "cfg-gen",
        "cores": 2,
        "keep": False,
        "global_tag": "140X_v1",
        "primary": "ZToMuMu",
        "era": "Run2026A",
        "string": "Test",
    }
    assert (second["release"], second["arch"]) == ("CMSSW_10_6_17_patch1", "slc7_amd64_gcc700")
    assert (second["parent"], second["module"], second["pileup"]) == (0, "RAWSIMoutput", {"mc": [PREMIX]})
    assert (third["parent"], third["streams"], third["cores"]) == (1, 2, 4)


def test_kind_is_cmssw_for_a_document_with_a_release_and_nothing_else() -> None:
    assert read(rereco()).payload_config["kind"] == "cmssw"
    command = {"command": ["true"]}
    assert read(rereco(PayloadConfig=command)).payload_config["kind"] == "command"
    assert "cmssw" not in read(rereco(PayloadConfig={"kind": "root-demo"})).payload_config


def test_spec_that_was_read_is_read_again_alike() -> None:
    for raw in (rereco(), step_chain(), task_chain()):
        spec = read(raw)

        assert read(spec.to_document()) == spec


def test_document_cannot_bring_pins_along() -> None:
    spec = read(step_chain())
    forged = pinned(spec)

    again = read(spec.to_document() | {"payload_config": forged})

    assert not is_pinned(again.payload_config)
    assert again == spec


@pytest.mark.parametrize(
    ("raw", "field", "message"),
    [
        (rereco(ConfigCacheID=None), "ConfigCacheID", "names the configuration of the step"),
        (rereco(ScramArch=None), "ScramArch", "names the architecture of the step"),
        (rereco(ScramArch="linux"), "ScramArch", "is not such as el8_amd64_gcc12"),
        (rereco(EventStreams="many"), "EventStreams", "give a whole number from 0 to 512"),
        (harvest(DQMConfigCacheID=None), "DQMConfigCacheID", "names the configuration that harvests"),
        (harvest(DQMHarvestUnit="byLumi"), "DQMHarvestUnit", "byRun or multiRun"),
        (harvest(Allocation="pull"), "Allocation", "a job harvests all files of a run"),
        (
            step_chain(Step3={"StepName": "RECO"}),
            "Step3.ConfigCacheID",
            "names the configuration of the step",
        ),
        (
            rereco(PayloadConfig={"kind": "cmssw", "cmssw": {"steps": [{"name": "x"}]}}),
            "PayloadConfig.cmssw.steps[0].config_id",
            "",
        ),
        (rereco(PayloadConfig={"kind": "cmssw", "cmssw": {"steps": [1]}}), "PayloadConfig", "steps[0]"),
        (rereco(PayloadConfig={"cmssw": 5}), "PayloadConfig", "cmssw: expected an object"),
    ],
)
def test_document_that_no_job_could_run_is_refused(raw: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(raw)

    assert list(caught.value.fields) == [field]
    assert message in caught.value.fields[field]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "CMSSWVersion", "ScramArch", "ConfigCacheID", "InputFromOutputModule", "EventStreams", "LheInputFiles",
    "MCPileup", "KeepOutput", "TransientOutputModules", "Multicore", "RequestType", "PayloadConfig",
)  # fmt: skip


@given(
    document=st.dictionaries(st.sampled_from(FIELDS), ANYTHING),
    step=st.dictionaries(st.sampled_from(FIELDS), ANYTHING),
)
def test_any_value_is_either_refused_or_accepted_by_jobs(
    document: dict[str, Any], step: dict[str, Any]
) -> None:
    raw = step_chain() | document
    raw["Step2"] |= step
    try:
        payload = read(raw).payload_config
    except InvalidInput:
        return

    RULES.check(payload)


def test_dataset_that_no_configuration_writes_is_named_with_the_tiers_they_write() -> None:
    spec = read(rereco(OutputDatasets=["/SingleMuon/Run2026A-Test-v1/MINIAOD"]))

    with pytest.raises(
        ConfigurationRefused, match=r"writes /SingleMuon/.*/MINIAOD.* AOD by AODoutput of cfg-rereco"
    ):
        pinned(spec)


def test_output_of_a_step_that_is_not_kept_is_no_dataset() -> None:
    spec = read(step_chain(OutputDatasets=["/ZToMuMu/Run2026A-Test-v1/GEN-SIM"]))

    with pytest.raises(ConfigurationRefused, match="GEN-SIM"):
        pinned(spec)


def test_module_that_the_step_before_does_not_have_is_named() -> None:
    raw = step_chain()
    raw["Step3"]["InputFromOutputModule"] = "RAWoutput"

    with pytest.raises(
        ConfigurationRefused, match=r"RECO reads RAWoutput of DIGI, .* cfg-digi has PREMIXRAWoutput"
    ):
        pinned(read(raw))


def test_next_version_is_pinned_to_its_own_datasets() -> None:
    spec = read(step_chain())
    newer = [output.dataset.replace("-v1/", "-v2/") for output in spec.output_datasets]

    steps = steps_of(pin_configurations(spec.payload_config, newer, CONFIGS))

    assert [list(step["outputs"].values()) for step in steps] == [[], newer[:1], newer[1:]]


def test_steps_of_one_system_require_it_and_others_none() -> None:
    assert system_of(read(rereco()).payload_config, "") == "rhel8"
    assert system_of(read(step_chain()).payload_config, "el8_amd64_gcc12") == "any"
    assert system_of({"kind": "command"}, "slc7_amd64_gcc700") == "rhel7"
    assert system_of({"kind": "command"}, "") == "any"
