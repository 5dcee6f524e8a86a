"""Documents of ReqMgr2 that name a CMSSW release run to completed, on a pool with the stand-in for CMSSW."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dags_app.models import DAG, InputFile, Workflow
from lab.seed.cmssw import seed_cmssw
from lab.seed.storage import Laboratory, Storage
from outputs_app.models import OutputFile
from rootfiles.skim import PAIR_PT
from tests.cmssw_world import read_branch, read_lumi_histogram, read_root
from tests.e2e.conftest import Stack

Json = dict[str, Any]
CHAIN, REPROCESSING, HARVEST = 0, 1, 2


@pytest.fixture(scope="module")
def finished(stack: Stack) -> Callable[[int], Json]:
    """Return the requests of the lab, imported from ReqMgr2 by name and run to the end once."""
    documents = seed_cmssw(stack.cms_url, Storage(stack.storage_prefix), f"c{uuid4().hex[:9]}")
    names = [document["RequestName"] for document in documents]
    for name in names:
        stack.post("requests", {"request_name": name, "source": "reqmgr2"})
    done = [stack.wait_for(name, "completed") for name in names]
    return lambda number: done[number]


def workflow_of(request: Json) -> Workflow:
    return Workflow.objects.get(request_name=request["request_name"])


def local_path(stack: Stack, lfn: str, site: str) -> Path:
    return Path(stack.storage_prefix.replace("{site}", site) + lfn)


def merged_events(stack: Stack, workflow: Workflow) -> dict[str, list[tuple[int, int, int]]]:
    """Return the events of each output dataset, from its merged files."""
    found: dict[str, list[tuple[int, int, int]]] = {dataset: [] for dataset in workflow.output_datasets}
    rows = OutputFile.objects.filter(block__dataset__workflow=workflow).select_related("block__dataset")
    for row in rows:
        path = local_path(stack, row.lfn, row.block.site)
        found[row.block.dataset.dataset_name] += read_root(path)
    return found


def test_step_chain_writes_both_tiers_with_the_planned_events(
    stack: Stack, finished: Callable[[int], Json]
) -> None:
    workflow = workflow_of(finished(CHAIN))

    found = merged_events(stack, workflow)

    assert sorted(one.rpartition("/")[2] for one in found) == ["AODSIM", "GEN-SIM"]
    simulated, reconstructed = (sorted(events) for _, events in sorted(found.items(), reverse=True))
    assert simulated == reconstructed
    assert len(simulated) >= 400
    assert len({event for _, _, event in simulated}) == len(simulated)
    lumis = {lumi for _, lumi, _ in simulated}
    assert all(sum(one[1] == lumi for one in simulated) <= 25 for lumi in lumis)


def test_simulation_has_pileup_from_the_files_of_its_dataset(
    stack: Stack, finished: Callable[[int], Json]
) -> None:
    workflow = workflow_of(finished(CHAIN))
    (pileup,) = workflow.secondary_input_datasets
    site = "T2_CH_CERN"
    known: set[float] = set()
    for file in stack.lab_files(pileup):
        known |= {*read_branch(local_path(stack, file.lfn, site), PAIR_PT)}

    rows = OutputFile.objects.filter(block__dataset__workflow=workflow, lfn__contains="/AODSIM/")
    mixed = {
        value for row in rows for value in read_branch(local_path(stack, row.lfn, row.block.site), "pileup")
    }

    assert mixed
    assert mixed <= known


def test_reprocessing_reads_the_lumis_of_its_mask_and_no_others(
    stack: Stack, finished: Callable[[int], Json]
) -> None:
    workflow = workflow_of(finished(REPROCESSING))
    mask = {int(run): pairs for run, pairs in workflow.splitting_params["lumi_mask"].items()}
    wanted: list[tuple[int, int, int]] = []
    for file in InputFile.objects.filter(workflow=workflow):
        path = local_path(stack, file.lfn, file.locations[0])
        wanted += [
            one for one in read_root(path) if any(low <= one[1] <= high for low, high in mask.get(one[0], []))
        ]

    found = merged_events(stack, workflow)

    assert len(found) == 2
    for events in found.values():
        assert sorted(events) == sorted(wanted)


def test_harvest_saves_a_file_per_run_with_the_histograms_of_all_its_files(
    stack: Stack, finished: Callable[[int], Json]
) -> None:
    workflow = workflow_of(finished(HARVEST))
    wanted: dict[int, dict[int, int]] = {}
    for file in InputFile.objects.filter(workflow=workflow):
        for run, lumi, _ in read_root(local_path(stack, file.lfn, file.locations[0])):
            entries = wanted.setdefault(run, {})
            entries[lumi] = entries.get(lumi, 0) + 1

    rows = OutputFile.objects.filter(block__dataset__workflow=workflow).select_related("block__dataset")
    found = [read_lumi_histogram(local_path(stack, row.lfn, row.block.site)) for row in rows]

    assert {row.block.dataset.dataset_name.rpartition("/")[2] for row in rows} == {"DQM"}
    assert len(found) == len(wanted) == 2
    assert dict(found) == wanted


def test_workflow_keeps_its_pinned_configurations(finished: Callable[[int], Json]) -> None:
    workflow = workflow_of(finished(CHAIN))
    steps = workflow.payload_config["cmssw"]["steps"]
    directory = Path(DAG.objects.filter(workflow=workflow).latest("created_at").submit_dir)

    assert [step["pset"] for step in steps] == ["pset_1.py", "pset_2.py", "pset_3.py"]
    assert [list(step["outputs"]) for step in steps] == [["RAWSIMoutput"], [], ["AODSIMoutput"]]
    assert all((directory / step["pset"]).exists() for step in steps)
    submitted = (directory / "proc.sub").read_text()
    assert 'My.REQUIRED_OS = "any"' in submitted  # the steps need different systems
    assert "../../pset_3.py" in submitted
    assert "pset_1.py" not in (directory / "merge.sub").read_text()


def test_configuration_that_does_not_exist_holds_the_request_with_its_name(stack: Stack, suffix: str) -> None:
    storage = Storage(stack.storage_prefix)
    document = seed_cmssw(stack.cms_url, storage, suffix)[CHAIN]
    document["Step3"]["ConfigCacheID"] = f"lab-lost{suffix}"
    name = stack.post("requests", document)["request_name"]

    held = stack.wait_for(name, "held")

    assert f"the ConfigCache has no configuration lab-lost{suffix}" in held["last_error"]
    assert "Check ConfigCacheID" in held["last_error"]
    Laboratory(stack.cms_url).add(
        "configs",
        {
            "id": f"lab-lost{suffix}",
            "content": "import FWCore\nprocess = 1\n",
            "modules": {"AODSIMoutput": {"dataTier": "AODSIM"}},
        },
    )
    stack.post(f"requests/{name}/release", {"reason": "uploaded"}, expect=200)
    stack.wait_for(name, "queued", "pilot_running", "planning", "active")
    stack.post(f"requests/{name}/abort", {"reason": "seen enough"}, expect=200)
