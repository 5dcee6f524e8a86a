"""Nodes, logs, rescue and refusals of DAG actions; what needs a schedd is shown on the real pool."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db.models import QuerySet
from rest_framework.test import APIClient

from dags_app.models import DAG
from dags_app.states import DAGStatus, GroupStatus, RoundStatus
from requests_app.models import Request
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_dag, make_group, make_request, make_round
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
S = RequestStatus
GOLDEN = Path(__file__).parents[2] / "unit" / "condor"


@pytest.fixture
def dag(tmp_path: Path) -> DAG:
    round_ = make_round(make_request(status=S.ACTIVE).workflow)
    for number in range(2):
        make_group(round_)
        (tmp_path / f"mg_{number:06d}").mkdir()
        (tmp_path / f"mg_{number:06d}" / "group.dag").write_bytes((GOLDEN / "golden/group.dag").read_bytes())
    (tmp_path / "mg_000000" / "group.dag.status").write_bytes(
        (GOLDEN / "samples/23.9-group-done.status").read_bytes()
    )
    (tmp_path / "workflow.dag.dagman.out").write_text("one\ntwo\nthree\n")
    return make_dag(round_, submit_dir=str(tmp_path), schedd_name="schedd-7")


def test_nodes_come_in_pages_straight_from_the_files(viewer: APIClient, dag: DAG) -> None:
    url = f"/api/v1/dags/{dag.id}/nodes"
    seen, cursor = [], "0.0"
    while cursor is not None:
        body = viewer.get(f"{url}?page_size=3&cursor={cursor}").json()
        seen += [(one["group"], one["node"]) for one in body["results"]]
        cursor = body["next"]
    whole = viewer.get(url).json()["results"]
    assert seen == [(one["group"], one["node"]) for one in whole]
    assert len(seen) == len(set(seen)) > 6


def test_nodes_are_filtered(viewer: APIClient, dag: DAG) -> None:
    def found(query: str) -> set[tuple[str, str]]:
        answer = viewer.get(f"/api/v1/dags/{dag.id}/nodes?{query}")
        assert answer.status_code == 200, answer.json()
        return {(one["group"], one["status"]) for one in answer.json()["results"]}

    assert found("role=landing") == {("mg_000000", "done"), ("mg_000001", "not_ready")}
    assert found("role=landing&status=done") == {("mg_000000", "done")}
    assert found("role=landing&role=merge&status=not_ready&group=mg_000001") == {("mg_000001", "not_ready")}


@pytest.mark.parametrize(
    ("query", "status"),
    [("status=fine", 422), ("cursor=x", 422), ("group=..", 422), ("wanted=1", 422), ("page_size=0", 422),
     ("cursor=0.0&cursor=1.0", 422), ("group=mg_000009", 404)],
)  # fmt: skip
def test_a_wrong_query_is_refused(viewer: APIClient, dag: DAG, query: str, status: int) -> None:
    assert viewer.get(f"/api/v1/dags/{dag.id}/nodes?{query}").status_code == status


def test_logs_have_a_tail(viewer: APIClient, dag: DAG) -> None:
    body = viewer.get(f"/api/v1/dags/{dag.id}/logs?tail=2").json()
    assert body["schedd_name"] == "schedd-7"
    assert body["tails"]["dagman_out"] == "two\nthree"
    node = viewer.get(f"/api/v1/dags/{dag.id}/logs?group=mg_000000&node=proc_000000").json()
    assert node["logs"]["out"] == f"{dag.submit_dir}/mg_000000/proc_000000.out"
    assert viewer.get(f"/api/v1/dags/{dag.id}/logs?node=merge").status_code == 422
    assert viewer.get(f"/api/v1/dags/{dag.id}/logs?group=mg_000000&node=../x").status_code == 422


@pytest.mark.parametrize("action", ["hold", "release", "remove"])
def test_only_a_queued_dag_is_steered(operator: APIClient, dag: DAG, action: str) -> None:
    DAG.objects.update(status=DAGStatus.STOPPED, completed_at=ago(minutes=1))
    answer = operator.post(f"/api/v1/dags/{dag.id}/{action}", {"reason": "why not"})
    assert answer.status_code == 409
    assert "stopped" in answer.json()["detail"]
    assert not AuditEvent.objects.filter(action__contains="DAG").exists()


def test_a_held_dag_is_not_removed_before_it_is_released(operator: APIClient, dag: DAG) -> None:
    DAG.objects.update(status=DAGStatus.HALTED)
    answer = operator.post(f"/api/v1/dags/{dag.id}/remove", {"reason": "away"})
    assert answer.status_code == 409
    assert "Release it first" in answer.json()["cure"]


@pytest.fixture
def ended(dag: DAG) -> DAG:
    """Return a DAG that ended with a finished and a failed group, and whose request is held."""
    dag.workflow.dags.update(status=DAGStatus.PARTIAL, completed_at=ago(minutes=1))
    first, second = dag.round.groups.order_by("index")
    dag.round.groups.filter(pk=first.pk).update(status=GroupStatus.COLLECTED)
    dag.round.groups.filter(pk=second.pk).update(status=GroupStatus.FAILED)
    requests_of(dag).update(status=S.HELD)
    return DAG.objects.get(pk=dag.pk)


def requests_of(dag: DAG) -> QuerySet[Request]:
    return Request.objects.filter(workflow=dag.workflow_id)


def test_a_rescue_queues_the_held_request_with_a_further_dag(operator: APIClient, ended: DAG) -> None:
    answer = operator.post(f"/api/v1/dags/{ended.id}/rescue", {"reason": "the disk is fixed"})
    assert answer.status_code == 201, answer.json()
    rescue = DAG.objects.get(pk=answer.json()["id"])
    assert (rescue.kind, rescue.parent_id, rescue.status) == ("rescue", ended.pk, "ready")
    assert list(ended.round.groups.order_by("index").values_list("status", flat=True)) == [
        "collected",
        "planned",
    ]
    row = requests_of(ended).get()
    assert (row.status, row.transitions.last().actor) == ("queued", "user:olga")
    assert operator.post(f"/api/v1/dags/{ended.id}/rescue", {"reason": "again"}).status_code == 409


@pytest.mark.parametrize(
    ("request_status", "round_status", "message"),
    [(S.ACTIVE, RoundStatus.PLANNED, "not held"), (S.HELD, RoundStatus.RESOLVED, "resolved")],
)
def test_a_rescue_needs_a_held_request_and_an_open_round(
    operator: APIClient, ended: DAG, request_status: RequestStatus, round_status: RoundStatus, message: str
) -> None:
    requests_of(ended).update(status=request_status)
    type(ended.round).objects.update(status=round_status)
    answer = operator.post(f"/api/v1/dags/{ended.id}/rescue", {"reason": "again"})
    assert answer.status_code == 409
    assert message in answer.json()["detail"]
    assert DAG.objects.count() == 1
