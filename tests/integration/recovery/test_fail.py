"""Failing a request: decided by a person, recorded in a manifest, executed by the sweep, repeatable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.states import DAGStatus
from outputs_app.models import OutputBlock, OutputDataset, RucioRule
from outputs_app.states import BlockStatus
from requests_app.models import Request
from requests_app.services.failing import fail_request
from requests_app.states import TERMINAL
from requests_app.states import RequestStatus as S
from tests.integration.factories import make_block, make_dag, make_group, make_request, make_round

pytestmark = pytest.mark.django_db


def produced(at: S = S.HELD, **dag: Any) -> Request:
    """Return a request with a DAG, one announced block and one being transferred."""
    row = make_request(status=at)
    round_ = make_round(row.workflow)
    make_dag(round_, **dag)
    group = make_group(round_)
    for state in (BlockStatus.ANNOUNCED, BlockStatus.SOURCE_PROTECTED):
        block = make_block(group, status=state)
        RucioRule.objects.create(
            block=block, kind="source", rse_expression=block.rse, rule_id=f"rule-{state.value}"
        )
    return row


def fail(client: APIClient, row: Request, reason: str = "wrong configuration") -> Any:
    return client.post(f"/api/v1/requests/{row.request_name}/fail", {"reason": reason})


def test_failing_a_request_removes_jobs_and_outputs_and_writes_a_manifest(
    operator: APIClient, settings: Any
) -> None:
    row = produced(S.ACTIVE, status=DAGStatus.RUNNING)
    answer = fail(operator, row)
    assert answer.status_code == 200, answer.json()
    row.refresh_from_db()
    assert (row.status, row.transitions.last().actor) == (S.FAILED, "user:olga")
    dag = row.workflow.dags.get()
    assert dag.stop_requested_at is not None, "the watcher removes what runs of an ended request"
    body = json.loads((Path(settings.SUBMIT_ROOT) / "invalidations" / f"{row.request_name}.json").read_text())
    blocks = OutputBlock.objects.filter(dataset__workflow=row.workflow)
    assert {one["block"] for one in body["blocks"]} == {block.block_name for block in blocks}
    assert sorted(rule for one in body["blocks"] for rule in one["rules"]) == [
        "rule-announced", "rule-source_protected",
    ]  # fmt: skip
    assert (body["invalidated_by"], body["reason"]) == ("user:olga", "wrong configuration")
    assert {block.status for block in blocks} == {BlockStatus.INVALIDATING}
    assert OutputDataset.objects.get(workflow=row.workflow).status == "invalidated"


def test_failing_again_takes_the_invalidation_up_and_changes_nothing_else(operator: APIClient) -> None:
    row = produced()
    for _ in range(2):
        assert fail(operator, row).status_code == 200
    assert [one.to_status for one in row.transitions.all()] == ["held", "failed"]


@pytest.mark.parametrize("status", [S.QUEUED, S.PLANNING, S.COMPLETED, S.ABORTED])
def test_an_illegal_fail_is_refused_with_the_cure(operator: APIClient, status: S, settings: Any) -> None:
    row = make_request(status=status)
    answer = fail(operator, row)
    assert answer.status_code == 409
    assert "abort it" in answer.json()["cure"]
    row.refresh_from_db()
    assert row.status == status
    assert not (Path(settings.SUBMIT_ROOT) / "invalidations" / f"{row.request_name}.json").exists()


def invalidate(client: APIClient, row: Request, reason: str = "the calibration was wrong") -> Any:
    return client.post(f"/api/v1/requests/{row.request_name}/invalidate", {"reason": reason})


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_outputs_of_an_ended_request_are_taken_back_and_its_status_stays(
    operator: APIClient, status: S, settings: Any
) -> None:
    row = produced(status)
    OutputDataset.objects.filter(workflow=row.workflow).update(status="superseded")
    for _ in range(2):
        answer = invalidate(operator, row)
        assert answer.status_code == 200, answer.json()
    row.refresh_from_db()
    assert row.status == status
    assert OutputDataset.objects.get(workflow=row.workflow).status == "invalidated"
    blocks = OutputBlock.objects.filter(dataset__workflow=row.workflow)
    assert {block.status for block in blocks} == {BlockStatus.INVALIDATING}
    body = json.loads((Path(settings.SUBMIT_ROOT) / "invalidations" / f"{row.request_name}.json").read_text())
    assert (body["invalidated_by"], len(body["blocks"])) == ("user:olga", 2)


def test_outputs_of_an_unfinished_request_are_not_invalidated(operator: APIClient) -> None:
    row = produced(S.HELD)
    answer = invalidate(operator, row)
    assert (answer.status_code, "Fail the request" in answer.json()["cure"]) == (409, True)
    assert OutputDataset.objects.get(workflow=row.workflow).status == "active"


def test_the_console_fails_a_held_request(console: Any) -> None:
    row = produced()
    fail_request(request=row, actor="user:adam", reason="no use", now=timezone.now())
    page = console.get(f"/admin/requests_app/request/{row.pk}/change/")
    assert page.status_code == 200
