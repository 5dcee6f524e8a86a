"""The graph of a request: groups with positions from the database, nodes on demand from the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from dags_app.models import DAG, FailureCluster
from dags_app.states import GroupStatus
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_dag, make_group, make_request, make_round
from tests.integration.recovery.factories import write_record

pytestmark = pytest.mark.django_db
GOLDEN = Path(__file__).parents[2] / "unit" / "condor"
CERN, DESY = "T2_CH_CERN", "T2_DE_DESY"


@pytest.fixture
def dag(tmp_path: Path) -> DAG:
    """Return a DAG with a finished, a failed and a waiting group, of which the first two are on disk."""
    round_ = make_round(make_request(status=RequestStatus.ACTIVE).workflow)
    make_group(round_, status=GroupStatus.COLLECTED, site=CERN, jobs=2, metrics={"wall_time_sec": 30.0})
    make_group(round_, status=GroupStatus.FAILED, site=DESY, jobs=2, nodes_done=1, nodes_failed=2)
    make_group(round_, jobs=2)
    for number in range(2):
        directory = tmp_path / f"mg_{number:06d}"
        directory.mkdir()
        (directory / "group.dag").write_bytes((GOLDEN / "golden/group.dag").read_bytes())
    failed = tmp_path / "mg_000001"
    write_record(failed, "proc_000000", site=DESY, exit_code=8021, message="no such file")
    (failed / "group.dag.nodes.log").write_text(
        "000 (0042.000.000) 2031-01-01 00:00:00 Job submitted from host: <127.0.0.1:9618>\n"
        "    DAG Node: proc_000000\n...\n"
        "000 (0043.000.000) 2031-01-01 00:00:09 Job submitted from host: <127.0.0.1:9618>\n"
        "    DAG Node: proc_000001\n...\n"
    )
    (failed / "raised.inc").write_text("memory_proc_000000 = 99999\n")
    return make_dag(round_, submit_dir=str(tmp_path), created_at=ago(hours=1))


def get(client: APIClient, url: str, status: int = 200) -> dict[str, Any]:
    answer = client.get(f"/api/v1/{url}")
    assert answer.status_code == status, answer.content
    return dict(answer.json())


def graph_url(dag: DAG) -> str:
    return f"requests/{dag.workflow.request_name}/graph"


def test_groups_have_positions_states_sites_and_causes(viewer: APIClient, dag: DAG) -> None:
    FailureCluster.objects.create(
        dag=dag, workflow=dag.workflow, fingerprint="f" * 16, message="no such file", exit_code=8021,
        category="data", site=DESY, jobs=2, groups=["mg_000001"], jobs_at_site=2, failed_elsewhere=0,
        jobs_elsewhere=2,
    )  # fmt: skip
    body = get(viewer, graph_url(dag))
    rows = [dict(zip(body["columns"], row, strict=True)) for row in body["groups"]]
    assert [body["statuses"][row["status"]] for row in rows] == ["collected", "failed", "planned"]
    assert [(row["done"], row["failed"], row["seconds"]) for row in rows] == [
        (5, 0, 15),
        (1, 2, -1),
        (0, 0, -1),
    ]
    assert [row["site"] for row in rows] == [0, 1, -1]
    assert [row["cause"] for row in rows] == [-1, 0, -1]
    assert body["causes"] == [{"fingerprint": "f" * 16, "label": "data 8021", "jobs": 2}]
    assert len({(row["x"], row["y"]) for row in rows}) == 3
    (band,) = body["rounds"]
    assert (band["dag"], band["groups"], band["nodes"], body["nodes"]) == (str(dag.pk), 3, 15, 15)


def test_an_unchanged_graph_is_not_sent_again(viewer: APIClient, dag: DAG) -> None:
    first = viewer.get(f"/api/v1/{graph_url(dag)}")
    again = viewer.get(f"/api/v1/{graph_url(dag)}", HTTP_IF_NONE_MATCH=first["ETag"])
    assert (again.status_code, again.content) == (304, b"")
    make_group(dag.round)
    changed = viewer.get(f"/api/v1/{graph_url(dag)}", HTTP_IF_NONE_MATCH=first["ETag"])
    assert changed.status_code == 200


def test_a_request_without_rounds_has_an_empty_graph(viewer: APIClient) -> None:
    body = get(viewer, f"requests/{make_request().request_name}/graph")
    assert (body["rounds"], body["groups"], body["nodes"]) == ([], [], 0)


def test_the_graph_of_many_groups_takes_as_many_queries_as_of_few(
    viewer: APIClient, dag: DAG, django_assert_max_num_queries: Any
) -> None:
    for _ in range(20):
        make_group(dag.round)
    viewer.get(f"/api/v1/{graph_url(dag)}")
    with django_assert_max_num_queries(12):
        get(viewer, graph_url(dag))


def test_nodes_have_states_and_the_resources_of_their_last_attempt(viewer: APIClient, dag: DAG) -> None:
    body = get(viewer, f"{graph_url(dag)}/nodes?round=0&group=0,1&records=all")
    done, failed = body["groups"]
    assert {body["states"][state] for state in done["states"]} == {"done"}
    (record,) = failed["records"]
    row = dict(zip(body["columns"], record, strict=True))
    assert (row["exit_code"], row["attempts"], row["seconds"]) == (8021, 1, 1)
    assert failed["names"][row["node"]] == "proc_000000"
    assert failed["names"][0] == "landing"
    assert len(body["places"]) == len(failed["names"]) == len(failed["states"])


def test_only_failed_nodes_are_read_in_detail_unless_all_are_requested(viewer: APIClient, dag: DAG) -> None:
    body = get(viewer, f"{graph_url(dag)}/nodes?round=0&group=1")
    (failed,) = body["groups"]
    assert failed["records"] == []


def test_the_nodes_of_many_groups_take_as_many_queries_as_of_few(
    viewer: APIClient, dag: DAG, django_assert_max_num_queries: Any
) -> None:
    for _ in range(20):
        make_group(dag.round)
    url = f"{graph_url(dag)}/nodes?round=0&group={','.join(map(str, range(23)))}"
    get(viewer, url)
    with django_assert_max_num_queries(10):
        get(viewer, url)


def test_a_call_ends_after_the_group_that_reaches_the_limit_of_nodes(
    viewer: APIClient, dag: DAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dags_app.graph.selectors.MAX_NODES_READ", 1)
    body = get(viewer, f"{graph_url(dag)}/nodes?round=0&group=0,1")
    assert [group["index"] for group in body["groups"]] == [0]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("round=0&group=9", 404),
        ("round=7&group=0", 404),
        ("round=0&group=x", 422),
        ("round=0", 422),
        ("group=0", 422),
        ("round=0&group=0&records=some", 422),
        ("round=0&group=" + ",".join(map(str, range(300))), 422),
    ],
)
def test_unknown_groups_are_refused(viewer: APIClient, dag: DAG, query: str, status: int) -> None:
    get(viewer, f"{graph_url(dag)}/nodes?{query}", status)


def test_a_node_has_attempts_resources_and_condor_ids(viewer: APIClient, dag: DAG) -> None:
    body = get(viewer, f"dags/{dag.pk}/nodes/mg_000001/proc_000000")
    assert body["job_ids"] == ["42.0"]
    assert (body["asked"]["memory_mb"], body["asked"]["cpus"]) == (99999, 1)
    (attempt,) = body["attempts"]
    assert (attempt["exit_code"], attempt["message"]) == (8021, "no such file")
    assert attempt["log_tail"] == "the last lines of proc_000000"


@pytest.mark.parametrize("path", ["mg_000001/proc_000777", "mg_000009/merge", "mg_1/merge", "mg_000001/x"])
def test_an_unknown_node_is_not_found(viewer: APIClient, dag: DAG, path: str) -> None:
    get(viewer, f"dags/{dag.pk}/nodes/{path}", 404)
