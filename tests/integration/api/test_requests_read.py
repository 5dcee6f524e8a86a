"""Reading requests: list, filters, pages, detail, timeline, progress, versions."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from dags_app.api.serializers import RoundBody
from dags_app.states import FileState, GroupStatus
from outputs_app.states import BlockStatus
from requests_app.api.serializers import AlertBody, RequestDetail
from requests_app.services.alerts import raise_alert
from requests_app.states import RequestStatus
from tests.integration.factories import (
    ago,
    make_block,
    make_dag,
    make_file,
    make_group,
    make_request,
    make_round,
    make_site,
    make_workflow,
)
from wms2_project.access import audit

pytestmark = pytest.mark.django_db
URL = "/api/v1/requests"


def names(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [row["request_name"] for row in answer.json()["results"]]


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    """Return the members that are not times: PostgreSQL and Python write UTC differently."""
    return {name: value for name, value in row.items() if not name.endswith("_at")}


def test_the_list_shows_newest_first_with_progress(viewer: APIClient) -> None:
    older, newer = make_request(), make_request()
    make_file(newer.workflow, events=30)
    round_ = make_round(newer.workflow)
    make_group(round_, status=GroupStatus.COLLECTED, input_events=10)
    make_file(newer.workflow, events=10, state=FileState.PROCESSED, round=round_, first_group=0, last_group=0)

    answer = viewer.get(URL)

    assert names(answer) == [newer.request_name, older.request_name]
    row = answer.json()["results"][0]
    assert row["progress"]["fraction"] == 0.25
    assert row["workflow"] == {"id": str(newer.workflow_id), "status": "new"}
    assert "request_data" not in row


def test_a_page_costs_the_same_number_of_queries_for_any_number_of_rows(viewer: APIClient) -> None:
    make_request()
    with CaptureQueriesContext(connection) as few:
        viewer.get(URL)
    for _ in range(9):
        make_request()
    with CaptureQueriesContext(connection) as many:
        assert len(names(viewer.get(URL))) == 10
    assert len(many) <= len(few)


def test_pages_are_walked_without_loss_or_repetition(viewer: APIClient) -> None:
    made = [make_request().request_name for _ in range(7)]
    seen: list[str] = []
    url: str | None = f"{URL}?page_size=3"
    while url:
        answer = viewer.get(url)
        seen += names(answer)
        url = answer.json()["next"]
    assert seen == made[::-1]


@pytest.mark.parametrize("cursor", ["nonsense", "cD1ub3QtYS1kYXRl", "cD0lMDA="])
def test_a_made_up_cursor_is_not_found(viewer: APIClient, cursor: str) -> None:
    assert viewer.get(f"{URL}?cursor={cursor}").status_code == 404


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("status=held", {"b"}),
        ("status=held&status=queued", {"a", "b"}),
        ("campaign=Other", {"b"}),
        ("requestor=bob", {"b"}),
        ("submitted_by=portal", {"b"}),
        ("input_dataset=/Other/Run1-v1/RAW", {"b"}),
        ("priority_min=500", {"b"}),
        ("priority_max=499", {"a"}),
        ("urgent=true", {"b"}),
        ("urgent=false", {"a"}),
        ("correlation_id=order:7", {"b"}),
        ("name=a", {"a"}),
        ("created_after=2000-01-01T00:00:00Z", {"a", "b"}),
        ("created_before=2000-01-01T00:00:00Z", set()),
    ],
)
def test_filters(viewer: APIClient, query: str, expected: set[str]) -> None:
    make_request(status=RequestStatus.QUEUED, request_name="a", priority=100)
    make_request(
        status=RequestStatus.HELD,
        workflow=make_workflow(request_name="b", input_dataset="/Other/Run1-v1/RAW"),
        campaign="Other", requestor="bob", submitted_by="portal", priority=900, urgent=True,
        correlation_id="order:7",
    )  # fmt: skip
    assert set(names(viewer.get(f"{URL}?{query}"))) == expected


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=asleep", "status"),
        ("stauts=held", "stauts"),
        ("urgent=perhaps", "urgent"),
        ("priority_min=many", "priority_min"),
        ("created_after=yesterday", "created_after"),
        ("campaign=%00", "campaign"),
        ("campaign=", "campaign"),
        ("page_size=0", "page_size"),
        ("page_size=501", "page_size"),
        ("page_size=many", "page_size"),
        ("priority_min=0.5", "priority_min"),
        ("fields=secret", "fields"),
    ],
)
def test_a_wrong_filter_is_refused_by_name(viewer: APIClient, query: str, field: str) -> None:
    answer = viewer.get(f"{URL}?{query}")
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {field}


def test_an_unknown_status_is_refused_with_the_known_ones(viewer: APIClient) -> None:
    body = str(viewer.get(f"{URL}?status=asleep").json()["errors"]["status"])
    assert "asleep is not one of new, submitted, " in body
    assert all(status in body for status in RequestStatus)


def test_only_the_requested_members_are_sent(viewer: APIClient) -> None:
    row = make_request()
    answer = viewer.get(f"{URL}?fields=request_name,request_data")
    assert answer.json()["results"] == [{"request_name": row.request_name, "request_data": row.request_data}]


def test_the_detail_has_every_field(viewer: APIClient) -> None:
    row = make_request(
        status=RequestStatus.HELD, hold_evidence={"reason": "no site"}, last_error="no site", version=3
    )
    round_ = make_round(row.workflow)
    make_group(round_, status=GroupStatus.FAILED)
    dag = make_dag(round_)
    raise_alert(request=row, kind="slow_dag", message="it takes long")

    answer = viewer.get(f"{URL}/{row.request_name}")

    body = answer.json()
    assert answer["ETag"] == '"3"'
    assert body["status"] == "held"
    assert body["hold_evidence"] == {"reason": "no site"}
    assert body["request_data"] == row.request_data
    assert body["queue_position"] is None
    assert body["rounds"][0]["groups"] == {"planned": 0, "done": 0, "collected": 0, "failed": 1}
    assert body["rounds"][0]["dags"][0]["id"] == str(dag.id)
    assert [alert["kind"] for alert in body["alerts"]] == ["slow_dag"]
    assert set(body) == set(RequestDetail().fields)
    assert set(body["alerts"][0]) == set(AlertBody().fields)
    assert set(body["rounds"][0]) == set(RoundBody().fields)
    listed = viewer.get("/api/v1/dags").json()["results"]
    assert [timeless(one) for one in body["rounds"][0]["dags"]] == [timeless(one) for one in listed]


def test_the_detail_takes_three_queries(viewer: APIClient) -> None:
    row = make_request(status=RequestStatus.ACTIVE)
    make_dag(make_round(row.workflow))
    viewer.get(URL)  # notes the use of the token
    with CaptureQueriesContext(connection) as taken:
        viewer.get(f"{URL}/{row.request_name}")
    assert len(taken) == 3, [one["sql"][:80] for one in taken]  # the caller, the request, all around it


def test_the_detail_has_the_position_in_the_queue(viewer: APIClient) -> None:
    make_request(status=RequestStatus.QUEUED, priority=900)
    second = make_request(status=RequestStatus.QUEUED, priority=100)
    assert viewer.get(f"{URL}/{second.request_name}").json()["queue_position"] == 2


def test_an_unknown_request_is_not_found_by_name(viewer: APIClient) -> None:
    answer = viewer.get(f"{URL}/unknown")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "There is no request named unknown"


def test_the_timeline_is_in_order(operator: APIClient, viewer: APIClient) -> None:
    row = make_request(status=RequestStatus.HELD)
    operator.post(f"{URL}/{row.request_name}/release", {"reason": "fixed"})

    answer = viewer.get(f"{URL}/{row.request_name}/timeline")

    body = [(step["from_status"], step["to_status"], step["actor"]) for step in answer.json()["results"]]
    assert body == [("", "held", "system:test"), ("held", "queued", "user:olga")]
    turned = viewer.get(f"{URL}/{row.request_name}/timeline?ordering=-at").json()["results"]
    assert turned == answer.json()["results"][::-1]


def test_edits_and_actions_are_in_the_timeline_with_actor_and_reason(
    operator: APIClient, viewer: APIClient, console: Any
) -> None:
    make_site()
    row = make_request(status=RequestStatus.HELD)
    dag = make_dag(make_round(row.workflow))
    audit.record(actor="user:olga", action="hold DAG", target=dag.token, reason="maintenance")
    operator.patch(f"{URL}/{row.request_name}", {"reason": "conference", "priority": 7})
    operator.post(f"{URL}/{row.request_name}/release", {"reason": "seen", "memory_mb": 3000})
    audit.record(actor="user:olga", action="change", target="another", reason="r")
    ban = {"reason": "slow", "request_name": row.request_name}
    assert operator.post(f"/api/v1/sites/{make_site('T2_DE_DESY').name}/ban", ban).status_code == 200

    rows = viewer.get(f"{URL}/{row.request_name}/timeline?page_size=2").json()
    rows["results"] += viewer.get(rows["next"]).json()["results"]

    events = [(one["kind"], one["to_status"], one["actor"], one["reason"]) for one in rows["results"]]
    assert events == [
        ("status", "held", "system:test", "made for a test"),
        ("hold DAG", "", "user:olga", "maintenance"),
        ("change", "", "user:olga", "conference"),
        ("status", "queued", "user:olga", "seen"),
    ]
    ban, release = viewer.get(f"{URL}/{row.request_name}/timeline?ordering=-at").json()["results"][:2]
    assert (release["kind"], release["detail"]["changes"]) == ("release", {"memory_mb": 3000})
    assert (ban["kind"], ban["detail"]["changes"]["site"]) == ("ban", "T2_DE_DESY")
    change = rows["results"][2]["detail"]
    assert (change["changes"], change["previous"]) == ({"priority": 7}, {"priority": 100_000})
    page = console.get(f"/admin/requests_app/request/{row.pk}/change/").content.decode()
    assert "change: priority 7" in page


def test_progress_counts_announced_blocks(viewer: APIClient) -> None:
    row = make_request(status=RequestStatus.ACTIVE)
    group = make_group(make_round(row.workflow), status=GroupStatus.COLLECTED)
    make_block(group, status=BlockStatus.ANNOUNCED)
    make_block(group)

    body = viewer.get(f"{URL}/{row.request_name}/progress").json()

    assert (body["blocks"], body["blocks_announced"], body["files"], body["groups_done"]) == (2, 1, 2, 1)


def test_versions_are_listed_newest_first(viewer: APIClient) -> None:
    first = make_request(status=RequestStatus.FAILED, request_name="v1", created_at=ago(days=2))
    second = make_request(
        status=RequestStatus.ACTIVE, request_name="v2", processing_version=2, previous_version=first
    )

    for name in (first.request_name, second.request_name):
        body = viewer.get(f"{URL}/{name}/versions").json()
        assert body["current"] == {
            "request_name": "v2",
            "processing_version": 2,
            "status": "active",
            "cleanup_policy": "keep_until_replaced",
        }
        assert body["versions"] == [
            {
                "request_name": "v1",
                "processing_version": 1,
                "status": "failed",
                "superseded_by": "v2",
                "failure_reason": "made for a test",
            }
        ]
