"""Requested resources are in the DAG and the submit file, for each kind of ReqMgr2 document."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from dags_app.models import DAG, Workflow
from dags_app.planning.types import SitePool
from dags_app.services import production
from dags_app.states import DAGStatus, GroupStatus, RoundKind
from requests_app.services.importing import import_request
from tests.integration.factories import make_file

pytestmark = pytest.mark.django_db
SITES = SitePool(names=frozenset({"T1_US_FNAL"}), by_storage={"T1_US_FNAL_Disk": frozenset({"T1_US_FNAL"})})
DATASET = "/HLTPhysics/Run2016H-v1/RAW"
OUTPUT = {"OutputDatasets": ["/HLTPhysics/Era-First-v1/RECO"], "AcquisitionEra": "Era"}
# The shapes of the samples: resources on top for ReReco, in Task1…N and Step1…N for chains.
RERECO = OUTPUT | {
    "RequestType": "ReReco", "RequestName": "rereco", "InputDataset": DATASET, "Multicore": 8,
    "Memory": 12_000, "TimePerEvent": 73.85, "SizePerEvent": 1500, "RequiresGPU": "required",
    "SplittingAlgo": "EventAwareLumiBased", "EventsPerJob": 400,
}  # fmt: skip
TASKCHAIN = OUTPUT | {
    "RequestType": "TaskChain", "RequestName": "taskchain", "TaskChain": 2, "Multicore": 1, "Memory": 3000,
    "TimePerEvent": 1, "SizePerEvent": 1,
    "Task1": {"TaskName": "gen", "RequestNumEvents": 9000, "SplittingAlgo": "EventBased", "EventsPerJob": 100,
              "Multicore": 8, "Memory": 16_000, "TimePerEvent": 100, "SizePerEvent": 2000,
              "PrimaryDataset": "HLTPhysics", "RequiresGPU": "required"},
    "Task2": {"TaskName": "reco", "InputTask": "gen", "SplittingAlgo": "LumiBased", "LumisPerJob": 10,
              "Multicore": 4, "Memory": 9000, "TimePerEvent": 44, "SizePerEvent": 500},
}  # fmt: skip
STEPCHAIN = OUTPUT | {
    "RequestType": "StepChain", "RequestName": "stepchain", "StepChain": 2, "Multicore": 2, "Memory": 8000,
    "TimePerEvent": 2.4, "SizePerEvent": 33.2,
    "Step1": {"StepName": "mini", "InputDataset": DATASET, "SplittingAlgo": "EventAwareLumiBased",
              "EventsPerJob": 600, "Multicore": 4},
    "Step2": {"StepName": "nano", "InputStep": "mini", "SplittingAlgo": "LumiBased", "LumisPerJob": 1},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _submit_root(settings: Any, tmp_path: Path) -> None:
    settings.SUBMIT_ROOT = str(tmp_path / "dags")


def imported(document: dict[str, Any]) -> Workflow:
    workflow = import_request(document=document, actor="user:ana", on_behalf=True)[0].workflow
    for number in range(0 if workflow.generates else 20):
        make_file(
            workflow, events=100, size_bytes=3 * 1024**3, locations=["T1_US_FNAL_Disk"],
            lumis=[[1, number * 10 + 1, number * 10 + 10]],
        )  # fmt: skip
    return workflow


def planned(workflow: Workflow) -> DAG:
    decided = production.decide_plan(workflow=workflow, sites=SITES)
    return production.write_round(workflow=workflow, plan=decided, kind=RoundKind.PRODUCTION, priority=0)


def asked_by(dag: DAG) -> dict[str, int]:
    """Return the resources of the first processing node."""
    text = (Path(dag.submit_dir) / "mg_000000" / "group.dag").read_text()
    found = re.search(r"VARS proc_000000 .*", text)
    assert found
    return {key: int(value) for key, value in re.findall(r'(MEM|CPUS|DISK|WALL)="(\d+)"', found.group())}


def gpus_of(dag: DAG) -> int:
    found = re.search(r"^request_gpus = (\d+)$", (Path(dag.submit_dir) / "proc.sub").read_text(), re.M)
    assert found
    return int(found.group(1))


def wall_minutes(events: int, sec: float) -> int:
    return -(-int(events * sec * 3 * 100) // 6000)  # three times the estimate before a job counts as stuck


@pytest.mark.parametrize(
    ("document", "events", "jobs", "cores", "memory", "sec", "input_kb", "output_kb", "gpus"),
    [
        (RERECO, 400, 5, 8, 12_000, 73.85, 4 * 3 * 1024**2, 1500, 1),
        (TASKCHAIN, 100, 90, 8, 16_000, 144, 0, 2500, 1),
        (STEPCHAIN, 600, 4, 4, 8000, 2.4, 6 * 3 * 1024**2, 33.2, 0),
    ],
    ids=["ReReco", "TaskChain", "StepChain"],
)
def test_resources_of_a_document_reach_its_jobs(
    document: dict[str, Any], events: int, jobs: int, cores: int, memory: int, sec: float, input_kb: int,
    output_kb: float, gpus: int,
) -> None:  # fmt: skip
    dag = planned(imported(document))
    asked = asked_by(dag)
    assert dag.round.jobs == jobs
    assert (asked["CPUS"], asked["MEM"], gpus_of(dag)) == (cores, memory, gpus)
    assert abs(asked["WALL"] - max(60, wall_minutes(events, sec))) <= 1
    assert asked["DISK"] == input_kb + 2 * -int(-(events * output_kb) // 1)


def test_throttles_of_a_document_reach_the_dag() -> None:
    throttles = {"Processing": 7, "Merge": 2, "MergeGroup": 3}
    dag = planned(imported(RERECO | {"CategoryThrottles": throttles}))
    directory = Path(dag.submit_dir)
    assert "MAXJOBS MergeGroup 3\n" in (directory / "workflow.dag").read_text()
    group = (directory / "mg_000000" / "group.dag").read_text()
    assert "MAXJOBS Processing 7\nMAXJOBS Merge 2\nMAXJOBS Cleanup 50\n" in group


def test_pileup_is_passed_on_and_never_planned() -> None:
    pileup = "/Neutrino/Era-v1/PREMIX"
    workflow = imported(RERECO | {"MCPileup": pileup})
    dag = planned(workflow)
    manifest = json.loads((Path(dag.submit_dir) / "mg_000000" / "jobs.json").read_text())
    payload = json.loads((Path(dag.submit_dir) / "payload.json").read_text())
    assert (workflow.secondary_input_datasets, payload["MCPileup"]) == ([pileup], pileup)
    read = {file["lfn"] for job in manifest["jobs"].values() for file in job["files"]}
    assert read <= set(workflow.input_files.values_list("lfn", flat=True))


def second_round(workflow: Workflow, **measured: float) -> tuple[dict[str, int], dict[str, int]]:
    """Return the requests of jobs in the first round, and in the next after these measurements."""
    first = planned(workflow)
    metrics = {
        "jobs": 8, "wall_time_per_event_sec": 60.0, "peak_rss_mb": 900, "output_kb_per_event": 900.0,
        "cpu_efficiency": 1.0,
    } | measured  # fmt: skip
    first.round.groups.update(status=GroupStatus.COLLECTED, metrics=metrics)
    DAG.objects.filter(pk=first.pk).update(status=DAGStatus.COMPLETED, completed_at=timezone.now())
    production.resolve_round(round_=first.round, now=timezone.now())
    return asked_by(first), asked_by(planned(workflow))


@pytest.mark.parametrize(("peak_mb", "memory"), [(900, 16_000), (15_000, 18_000), (90_000, 24_000)])
def test_measured_memory_stays_in_the_window_of_its_cores(peak_mb: int, memory: int, settings: Any) -> None:
    settings.MEMORY_PER_CORE_MIN_MB, settings.MEMORY_PER_CORE_MAX_MB = 2000, 3000
    workflow = imported(RERECO | {"Adaptive": True, "EventsPerJob": 100})
    first, second = second_round(workflow, peak_rss_mb=peak_mb)
    assert (first["MEM"], second["MEM"]) == (12_000, memory)


@pytest.mark.parametrize(("follows", "cores"), [(True, 4), (False, 8)])
def test_a_payload_that_follows_its_cores_gets_no_more_than_it_uses(
    follows: bool, cores: int, settings: Any
) -> None:
    settings.MEMORY_PER_CORE_MIN_MB, settings.MEMORY_PER_CORE_MAX_MB = 2000, 3000
    payload = {"PayloadConfig": {"follows_cores": follows}}
    workflow = imported(RERECO | payload | {"Adaptive": True, "EventsPerJob": 100})
    first, second = second_round(workflow, cpu_efficiency=2.7)
    assert (first["CPUS"], second["CPUS"], second["MEM"]) == (8, cores, 2000 * cores)
