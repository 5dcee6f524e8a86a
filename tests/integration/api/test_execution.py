"""Workflows and DAGs: what a request's execution looks like from outside."""

from __future__ import annotations

from datetime import datetime

import pytest
from rest_framework.test import APIClient

from dags_app.models import DAGEvent, Workflow
from dags_app.states import DAGStatus, GroupStatus
from outputs_app.states import BlockStatus
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_block, make_dag, make_group, make_request, make_round

pytestmark = pytest.mark.django_db
PILOT = {
    "iterations": [
        {"events": 10, "wall_time_sec": 2.0, "memory_mb": 1800, "output_size_per_event_kb": 1.8},
        {"events": 20, "wall_time_sec": 4.0, "memory_mb": 1900, "output_size_per_event_kb": 1.8},
    ],
    "recommended": {
        "events_per_job": 25000, "memory_mb": 2280, "time_per_job_sec": 5000, "output_size_per_event_kb": 1.8,
    },
    "converged": True,
}  # fmt: skip


def test_a_workflow_follows_its_request(viewer: APIClient) -> None:
    row = make_request(status=RequestStatus.ACTIVE)
    make_round(row.workflow)

    listed = viewer.get("/api/v1/workflows").json()["results"]
    body = viewer.get(f"/api/v1/workflows/{row.workflow_id}").json()

    assert [(one["id"], one["status"]) for one in listed] == [(str(row.workflow_id), "active")]
    assert body["request_name"] == row.request_name
    assert body["parameters"]["splitting_algo"] == "FileBased"
    assert [one["number"] for one in body["rounds"]] == [0]


@pytest.mark.parametrize("query", ["request_name=x", "input_dataset=/a/b/C"])
def test_workflows_are_filtered(viewer: APIClient, query: str) -> None:
    make_request()
    assert viewer.get(f"/api/v1/workflows?{query}").json()["results"] == []


def test_the_status_of_a_workflow_has_measurements_dag_and_outputs(viewer: APIClient) -> None:
    row = make_request(status=RequestStatus.ACTIVE)
    Workflow.objects.update(pilot_metrics=PILOT, input_dataset=None, total_events=200)
    round_ = make_round(row.workflow)
    make_dag(round_, status=DAGStatus.PARTIAL, completed_at=ago(hours=1), created_at=ago(hours=2))
    running = make_dag(round_, parent=None)
    done = make_group(round_, status=GroupStatus.COLLECTED, events_read=100)
    make_group(round_)
    make_block(done, status=BlockStatus.ANNOUNCED)
    make_block(done, status=BlockStatus.TRANSFERRING)

    body = viewer.get(f"/api/v1/workflows/{row.workflow_id}/status").json()

    assert body["workflow_id"] == str(row.workflow_id)
    assert body["request_name"] == row.request_name
    assert body["status"] == "active"
    assert body["pilot_metrics"] == {
        "time_per_event_sec": 0.2,
        "memory_peak_mb": 1900,
        "output_size_per_event_kb": 1.8,
        "recommended_events_per_job": 25000,
    }
    assert body["dag"]["id"] == str(running.id)
    assert body["dag"]["node_counts"] == {"Processing": 8, "Merge": 1, "Cleanup": 1}
    assert {"total_nodes", "nodes_idle", "nodes_running", "nodes_done", "nodes_failed"} <= set(body["dag"])
    (output,) = body["outputs"]
    assert (output["status"], output["transfers_complete"], output["blocks"]) == ("transferring", False, 2)
    assert body["progress_percent"] == 50.0
    assert datetime.fromisoformat(body["estimated_completion"])


def test_a_workflow_without_anything_yet_has_a_status_too(viewer: APIClient) -> None:
    row = make_request(status=RequestStatus.SUBMITTED)
    body = viewer.get(f"/api/v1/workflows/{row.workflow_id}/status").json()
    assert (body["pilot_metrics"], body["dag"], body["outputs"], body["progress_percent"]) == (
        None,
        None,
        [],
        0.0,
    )


@pytest.mark.parametrize(
    "path", ["workflows/{}", "workflows/{}/status", "dags/{}", "dags/{}/logs", "dags/{}/nodes"]
)
def test_unknown_ids_are_not_found(viewer: APIClient, path: str) -> None:
    unknown = "00000000-0000-0000-0000-000000000000"
    answer = viewer.get(f"/api/v1/{path.format(unknown)}")
    assert answer.status_code == 404
    assert unknown in answer.json()["detail"]


def test_dags_are_listed_and_filtered(viewer: APIClient) -> None:
    row = make_request()
    round_ = make_round(row.workflow)
    make_dag(round_, status=DAGStatus.COMPLETED, completed_at=ago(hours=1))
    running = make_dag(round_)
    make_dag(make_round(make_request().workflow))

    def found(query: str) -> int:
        return len(viewer.get(f"/api/v1/dags?{query}").json()["results"])

    assert found("") == 3
    assert found("status=running") == 2
    assert found("status=running&status=completed") == 3
    assert found(f"workflow={row.workflow_id}") == 2
    assert found(f"request_name={row.request_name}&status=running") == 1
    assert found("kind=rescue") == 0
    assert viewer.get("/api/v1/dags?workflow=7").status_code == 422
    assert running.token not in str(viewer.get("/api/v1/dags").json())


def test_a_dag_shows_its_groups_and_events(viewer: APIClient) -> None:
    round_ = make_round(make_request().workflow)
    dag = make_dag(round_, version=4)
    make_group(round_, status=GroupStatus.COLLECTED, events_written=40)
    make_group(round_, status=GroupStatus.FAILED)
    DAGEvent.objects.create(dag=dag, event_type="submitted", from_status="ready", to_status="submitted")
    DAGEvent.objects.create(dag=dag, event_type="running", from_status="submitted", to_status="running")

    answer = viewer.get(f"/api/v1/dags/{dag.id}")

    body = answer.json()
    assert answer["ETag"] == '"4"'
    assert body["groups"] == {"planned": 0, "done": 0, "collected": 1, "failed": 1}
    assert body["group_totals"] == {"jobs": 8, "input_events": 200, "events_read": 0, "events_written": 40}
    assert [event["event_type"] for event in body["events"]] == ["running", "submitted"]
    assert body["dag_file_path"].endswith("/workflow.dag")


def test_the_logs_of_a_dag_are_located(viewer: APIClient) -> None:
    dag = make_dag(make_round(make_request().workflow), submit_dir="/srv/dags/x")
    body = viewer.get(f"/api/v1/dags/{dag.id}/logs").json()
    assert body["logs"]["dagman_out"] == "/srv/dags/x/workflow.dag.dagman.out"
    assert body["tails"]["dagman_out"] is None
