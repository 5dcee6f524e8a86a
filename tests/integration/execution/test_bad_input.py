"""Input that cannot be planned holds the request at once, with the exact reason; no wrong plan is made."""

from __future__ import annotations

import os
from typing import Any
from uuid import uuid4

import pytest
import requests
from django.utils import timezone

from dags_app.adapters import dbs
from dags_app.models import DAG, InputFile, Workflow
from dags_app.services.input_files import check_input, resolve_input
from dags_app.states import DAGStatus, FileState, GroupStatus, RoundKind
from requests_app.lifecycle.advance import advance
from requests_app.models import Request
from requests_app.states import RequestStatus
from sites_app.models import Site
from tests.integration.factories import (
    make_dag,
    make_file,
    make_group,
    make_request,
    make_round,
    make_site,
    make_workflow,
)

pytestmark = pytest.mark.django_db
LAB = os.environ.get("WMS2_LAB_CMS_URL", "")
RSE = "T1_US_FNAL_Disk"


def lab_dataset(*, files: int, **facts: Any) -> str:
    """Create a dataset in the lab's DBS and Rucio: one block, ten lumis and a hundred events per file."""
    name = f"/Bad/Input{uuid4().hex}-v1/RAW"
    rows = [
        {
            "lfn": f"/store/data{name}/{n}.root",
            "size_bytes": 1000,
            "events": 100,
            "adler32": "0123abcd",
            "lumis": {"1": [[10 * n + 1, 10 * n + 10]]},
        }
        for n in range(files)
    ]
    blocks = [{"name": f"{name}#one", "rses": [RSE], "files": rows}] if files else []
    answer = requests.post(
        f"{LAB}/lab/datasets", json={"dataset": name, "blocks": blocks} | facts, timeout=10
    )
    assert answer.status_code == 201, answer.text
    return name


def held_reason(request: Request) -> str:
    """Run a step of the lifecycle that must hold the request and plan nothing; return the reason."""
    advance(request.pk)
    request.refresh_from_db()
    assert request.status == RequestStatus.HELD, (request.status, request.last_error)
    assert not DAG.objects.filter(workflow=request.workflow).exists()
    return str(request.transitions.order_by("-id")[0].reason)


def submitted(dataset: str, **values: Any) -> Request:
    return make_request(workflow=make_workflow(input_dataset=dataset, **values))


def resolved(**values: Any) -> Request:
    """Return a request before planning, with three files in the ledger and a site that reads them."""
    make_site("T1_US_FNAL", storage_elements=[RSE])
    workflow = make_workflow(input_dataset=lab_dataset(files=3), **values)
    resolve_input(workflow=workflow, now=timezone.now())
    return make_request(workflow=workflow, status=RequestStatus.PLANNING, urgent=True)


def test_no_valid_files() -> None:
    name = lab_dataset(files=0)
    assert f"{name} has no valid files" in held_reason(submitted(name))


def test_a_mask_that_excludes_everything() -> None:
    request = submitted(lab_dataset(files=3), splitting_params={"lumi_mask": {"1": [[500, 600]]}})
    assert "lumi mask and operators exclude all 3 files" in held_reason(request)


def test_a_dataset_that_is_invalid_from_the_start() -> None:
    assert "is INVALID in DBS" in held_reason(submitted(lab_dataset(files=3, access_type="INVALID")))


def test_no_site_has_both_the_data_and_the_memory() -> None:
    request = resolved(memory_mb=3000)
    make_site("T2_CH_CERN", storage_elements=["T2_CH_CERN"])
    Site.objects.filter(name="T1_US_FNAL").update(thresholds={"memory_mb_per_core": 2000})
    assert "no usable site has both the memory and the data of 3 files" in held_reason(request)


def test_no_site_has_the_memory() -> None:
    request = resolved(memory_mb=9000)
    Site.objects.update(thresholds={"memory_mb_per_core": 2000})
    assert "no usable site offers 9000 MB per core" in held_reason(request)


def test_no_site_may_run_it() -> None:
    request = resolved(site_blacklist=["T1_US_FNAL"])
    assert "site lists, drains and bans exclude every site" in held_reason(request)


@pytest.mark.parametrize("pilot", [False, True], ids=["planning", "pilot"])
def test_a_dataset_that_was_invalidated_after_the_import_holds_the_request(pilot: bool) -> None:
    request = resolved()
    dbs().set_dataset_status(request.workflow.input_dataset or "", "INVALID")
    if pilot:
        Request.objects.filter(pk=request.pk).update(status=RequestStatus.PILOT_RUNNING, urgent=False)
    assert "has become INVALID in DBS" in held_reason(request)


def test_a_dataset_that_vanished_after_the_import() -> None:
    request = resolved()
    Workflow.objects.filter(pk=request.workflow_id).update(input_dataset="/Gone/For-ever/RAW")
    assert "dataset /Gone/For-ever/RAW is not in DBS any more" in held_reason(request)


def test_a_block_that_vanished_after_the_import() -> None:
    request = resolved()
    make_file(request.workflow, block_name=f"{request.workflow.input_dataset}#gone", locations=[RSE])
    Workflow.objects.filter(pk=request.workflow_id).update(input_seen={"blocks": 2})  # as DBS had it
    assert f"lost 1 blocks of the input, the first is {request.workflow.input_dataset}#gone" in held_reason(
        request
    )


@pytest.mark.parametrize("mask", [{}, {"lumi_mask": {"1": [[1, 10], [11, 15]]}}], ids=["all", "two of three"])
def test_files_that_were_invalidated_after_the_import(mask: dict[str, Any]) -> None:
    request = resolved(splitting_params=mask)
    second = f"/store/data{request.workflow.input_dataset}/1.root"
    dbs().invalidate_files([second])
    assert f"1 files of the input are not valid in DBS any more, the first is {second}" in held_reason(
        request
    )


@pytest.mark.parametrize("state", [FileState.EXCLUDED, FileState.PROCESSED])
def test_excluded_files_may_be_invalidated(state: FileState) -> None:
    request = resolved()
    second = f"/store/data{request.workflow.input_dataset}/1.root"
    dbs().invalidate_files([second])
    InputFile.objects.filter(workflow=request.workflow, lfn=second).update(
        state=state, round=make_round(request.workflow), first_group=0, last_group=0
    )
    check_input(workflow=request.workflow)


@pytest.mark.parametrize(
    ("algo", "params", "message"),
    [
        ("LumiBased", {"lumis_per_job": 0}, "lumis_per_job is 0"),
        ("FileBased", {"files_per_job": -1}, "files_per_job is -1"),
        ("EventBased", {"events_per_job": 0}, "events_per_job is 0"),
        ("EventAwareLumiBased", {"job_time_limit": -5}, "job_time_limit is -5"),
        ("LumiBased", {"total_lumis": -5}, "total_lumis is -5"),
        ("LumiBased", {"lumi_mask": {"1": [[9, 2]]}}, "lumi_mask has [[9, 2]] for run 1"),
    ],
)
def test_parameters_that_make_no_sense_hold_at_once(algo: str, params: dict[str, Any], message: str) -> None:
    request = resolved()
    Workflow.objects.filter(pk=request.workflow_id).update(splitting_algo=algo, splitting_params=params)
    assert message in held_reason(request)


def test_files_without_lumis_make_no_lumi_jobs_and_say_so() -> None:
    request = resolved(splitting_algo="LumiBased")
    request.workflow.input_files.update(lumis=[])
    assert "3 files are not processed yet; the remaining files give no jobs" in held_reason(request)


def test_a_name_that_dbs_lists_twice_is_one_file() -> None:
    request = resolved()
    Workflow.objects.filter(pk=request.workflow_id).update(input_resolved_at=None)
    again = Workflow.objects.get(pk=request.workflow_id)
    assert resolve_input(workflow=again, now=timezone.now()).files == 3


GOOD_REPORT = {
    "iterations": [{"events": 20, "wall_time_sec": 4.0}],
    "recommended": {
        "events_per_job": 10, "memory_mb": 500, "time_per_job_sec": 2.0, "output_size_per_event_kb": 1.5,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (None, "the pilot left no report"),
        ({"iterations": GOOD_REPORT["iterations"]}, "no 'recommended' part"),
        (
            GOOD_REPORT | {"recommended": {"memory_mb": 500}},
            "the pilot's report has events_per_job = 'None'",
        ),
        (GOOD_REPORT | {"iterations": [{"events": 0, "wall_time_sec": 1}]}, "processed no events"),
        (GOOD_REPORT | {"iterations": [{"events": 5, "wall_time_sec": -1}]}, "has wall_time_sec = '-1'"),
    ],
)
def test_a_pilot_with_an_implausible_or_missing_report_holds_the_request(report: Any, message: str) -> None:
    request = make_request(status=RequestStatus.PILOT_RUNNING)
    round_ = make_round(request.workflow, kind=RoundKind.PILOT)
    make_dag(round_, status=DAGStatus.COMPLETED, completed_at=timezone.now())
    make_group(round_, status=GroupStatus.COLLECTED, metrics={"jobs": 1, "pilot": report})
    advance(request.pk)
    request.refresh_from_db()
    assert request.status == RequestStatus.HELD
    assert message in request.transitions.order_by("-id")[0].reason
