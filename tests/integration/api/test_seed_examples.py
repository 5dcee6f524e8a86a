"""The interactions of the specification, §7.2, replayed: every member of its answers is in ours."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from dags_app.models import Workflow
from dags_app.states import GroupStatus
from outputs_app.states import BlockStatus
from requests_app.models import Request
from requests_app.states import RequestStatus
from tests.integration.api.test_execution import PILOT
from tests.integration.factories import DOCUMENT, make_block, make_dag, make_group, make_request, make_round

pytestmark = pytest.mark.django_db
NAME = DOCUMENT["request_name"]
ID, WHEN = "550e8400-e29b-41d4-a716-446655440000", "2026-01-30T10:00:00Z"


def holds(answer: Any, example: Any, path: str = "") -> None:
    """Check that every member of the example is in the answer, with a value of the same type."""
    if isinstance(example, dict):
        assert isinstance(answer, dict), path
        for name, value in example.items():
            assert name in answer, f"{path}.{name}"
            holds(answer[name], value, f"{path}.{name}")
    elif isinstance(example, list):
        assert answer, path
        for one in answer:
            holds(one, example[0], f"{path}[]")
    else:
        assert isinstance(answer, type(example)), f"{path}: {answer!r}"


@pytest.mark.usefixtures("reqmgr2")
def test_a_request_is_imported_by_its_name(requestor: APIClient) -> None:
    answer = requestor.post("/api/v1/requests", {"request_name": NAME, "source": "reqmgr2"})
    assert answer.status_code == 201
    holds(
        answer.json(), {"request_name": NAME, "status": "submitted", "workflow": {"id": ID, "status": "new"}}
    )
    assert (answer.json()["status"], answer.json()["workflow"]["status"]) == ("submitted", "new")


def test_the_admission_queue_is_checked(viewer: APIClient) -> None:
    make_request(status=RequestStatus.ACTIVE)
    row = make_request(status=RequestStatus.QUEUED, priority=100_000)
    body = viewer.get("/api/v1/admission/queue").json()
    holds(
        body,
        {
            "active_dags": 285,
            "max_active_dags": 300,
            "queued_workflows": 42,
            "next_in_queue": {"request_name": NAME, "priority": 100_000, "queued_since": WHEN},
        },
    )
    assert body["next_in_queue"]["request_name"] == row.request_name


def test_the_status_of_a_workflow_is_read(viewer: APIClient) -> None:
    row = running()
    body = viewer.get(f"/api/v1/workflows/{row.workflow_id}/status").json()
    holds(
        body,
        {
            "workflow_id": ID,
            "request_name": NAME,
            "status": "active",
            "pilot_metrics": {
                "time_per_event_sec": 0.12, "memory_peak_mb": 1900, "output_size_per_event_kb": 1.8,
                "recommended_events_per_job": 25_000,
            },
            "dag": {
                "id": ID, "status": "running", "total_nodes": 9560,
                "node_counts": {"Processing": 9500, "Merge": 50, "Cleanup": 10}, "nodes_idle": 3000,
                "nodes_running": 2500, "nodes_done": 4000, "nodes_failed": 60,
            },
            "outputs": [{"dataset_name": "/A/B/C", "status": "transferring", "transfers_complete": False}],
            "progress_percent": 41.8,
            "estimated_completion": WHEN,
        },
    )  # fmt: skip
    assert body["outputs"][0]["transfers_complete"] is False


def test_a_clean_stop_is_initiated(operator: APIClient) -> None:
    row = running()
    answer = operator.post(
        f"/api/v1/requests/{row.request_name}/stop", {"reason": "Schedd maintenance window"}
    )
    body = answer.json()
    holds(
        body,
        {"request_name": NAME, "status": "", "previous_status": "", "stop_reason": "", "message": ""},
    )
    assert (body["status"], body["previous_status"]) == ("stopping", "active")
    assert body["stop_reason"] == "Schedd maintenance window"


def test_the_version_history_is_read(viewer: APIClient) -> None:
    first = make_request(status=RequestStatus.FAILED)
    second = make_request(status=RequestStatus.ACTIVE, previous_version=first, processing_version=2)
    body = viewer.get(f"/api/v1/requests/{second.request_name}/versions").json()
    holds(
        body,
        {
            "current": {
                "request_name": NAME, "processing_version": 2, "status": "active",
                "cleanup_policy": "keep_until_replaced",
            },
            "versions": [
                {
                    "request_name": NAME, "processing_version": 1, "status": "failed",
                    "superseded_by": NAME, "failure_reason": "Schedd permanently lost",
                }
            ],
        },
    )  # fmt: skip
    assert body["versions"][0]["superseded_by"] == second.request_name


def running() -> Request:
    row = make_request(status=RequestStatus.ACTIVE)
    Workflow.objects.filter(pk=row.workflow_id).update(
        pilot_metrics=PILOT, input_dataset=None, total_events=200
    )
    round_ = make_round(row.workflow)
    make_dag(round_)
    make_block(
        make_group(round_, status=GroupStatus.COLLECTED, events_read=100), status=BlockStatus.TRANSFERRING
    )
    make_group(round_)
    return row
