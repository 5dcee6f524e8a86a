"""Rows for tests, made through the models with sensible values."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any

from django.utils import timezone

from dags_app.models import DAG, InputFile, MergeGroup, Round, Workflow
from dags_app.planning import names
from dags_app.states import DAGStatus, GroupStatus, RoundKind
from requests_app.models import Request
from requests_app.states import RequestStatus
from sites_app.models import Site

_number = itertools.count(1)
DATASET = "/Muon/Run2026A-v1/RAW"
OUTPUT = "/Muon/Run2026A-Prompt-v1/AOD"


def make_workflow(**changes: Any) -> Workflow:
    values: dict[str, Any] = {
        "request_name": f"test_request_{next(_number)}",
        "input_dataset": DATASET,
        "output_datasets": [OUTPUT],
        "splitting_algo": "FileBased",
        "splitting_params": {"files_per_job": 1},
    }
    return Workflow.objects.create(**(values | changes))


def make_request(
    *,
    status: RequestStatus = RequestStatus.SUBMITTED,
    workflow: Workflow | None = None,
    since: datetime | None = None,
    **changes: Any,
) -> Request:
    workflow = workflow or make_workflow()
    values: dict[str, Any] = {
        "request_name": workflow.request_name,
        "workflow": workflow,
        "request_data": {"RequestName": workflow.request_name},
        "requestor": "ana",
        "status": status,
        "status_since": since or timezone.now(),
        "rank": float(changes.get("priority", 100_000)),
    }
    return Request.objects.create(**(values | changes))


def make_round(
    workflow: Workflow, *, groups: int = 2, number: int = 0, kind: str = RoundKind.PRODUCTION
) -> Round:
    round_ = Round.objects.create(workflow=workflow, number=number, kind=kind, jobs=groups)
    for index in range(groups):
        MergeGroup.objects.create(round=round_, index=index, jobs=1, input_events=100)
    return round_


def make_dag(
    round_: Round, *, status: DAGStatus = DAGStatus.RUNNING, submit_dir: str = "/nowhere", **changes: Any
) -> DAG:
    now = timezone.now()
    dag = DAG(
        workflow=round_.workflow,
        round=round_,
        status=status,
        submit_dir=submit_dir,
        submitted_at=now,
        dagman_cluster_id=1,
        node_counts={"MergeGroup": round_.groups.count()},
    )
    for key, value in changes.items():
        setattr(dag, key, value)
    dag.token = names.token(dag.pk)
    dag.save()
    return dag


def make_files(workflow: Workflow, *, count: int = 2, events: int = 100) -> list[InputFile]:
    return [
        InputFile.objects.create(
            workflow=workflow,
            lfn=f"/store/data/{workflow.request_name}/f{number}.root",
            size_bytes=1000,
            events=events,
            locations=["T1_US_FNAL_Disk"],
            lumis=[[1, number + 1, number + 1]],
        )
        for number in range(count)
    ]


def make_site(name: str = "T1_US_FNAL", **changes: Any) -> Site:
    return Site.objects.create(name=name, storage_elements=[f"{name}_Disk"], **changes)


def mark_done(round_: Round) -> None:
    round_.groups.update(status=GroupStatus.DONE)
