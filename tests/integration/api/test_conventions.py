"""Conventions of all endpoints: selection, order, request ids, cures."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from django.db import connection
from rest_framework.test import APIClient

from dags_app.api.views import DAGListView
from requests_app.api.alerts import AlertListView
from requests_app.api.requests import RequestListView
from requests_app.api.workflows import WorkflowListView
from requests_app.lifecycle.advance import advance
from requests_app.models import Request
from requests_app.services.stopping import abort_request
from requests_app.states import RequestStatus
from tests.integration.conftest import ApiAs
from tests.integration.factories import (
    DOCUMENT,
    ago,
    make_dag,
    make_request,
    make_round,
    make_site,
    make_workflow,
)
from wms2_project.access.roles import Role
from wms2_project.api.audit import AuditListView
from wms2_project.api.pagination import beyond
from wms2_project.api.views import ListView
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
URL = "/api/v1/requests"


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("requests", "request_name,status"),
        ("requests/a", "request_name,version"),
        ("requests/a/timeline", "to_status,actor"),
        ("requests/a/versions", "current"),
        ("workflows", "id,status"),
        ("dags", "id"),
        ("sites", "name"),
        ("admission/queue", "paused,active_dags"),
        ("status", "requests"),
    ],
)
def test_every_read_sends_only_the_members_named(viewer: APIClient, path: str, fields: str) -> None:
    row = make_request(request_name="a")
    make_dag(make_round(row.workflow))
    make_site()
    body = viewer.get(f"/api/v1/{path}?fields={fields}").json()
    for part in body.get("results", [body]):
        assert set(part) == set(fields.split(","))
    refused = viewer.get(f"/api/v1/{path}?fields=secret")
    assert (refused.status_code, set(refused.json()["errors"])) == (422, {"fields"})


@pytest.mark.parametrize(
    ("path", "shown", "ordering", "expected"),
    [
        ("requests", "request_name", "", "acb"),
        ("requests", "request_name", "created_at", "bca"),
        ("requests", "request_name", "-created_at", "acb"),
        ("requests", "request_name", "request_name", "abc"),
        ("requests", "request_name", "-request_name", "cba"),
        ("workflows", "request_name", "", "acb"),
        ("workflows", "request_name", "request_name", "abc"),
        ("dags", "request_name", "", "acb"),
        ("dags", "request_name", "created_at", "bca"),
        ("sites", "name", "", "abc"),
        ("sites", "name", "-name", "cba"),
    ],
)
def test_every_list_is_turned_and_still_walked_without_loss(
    viewer: APIClient, path: str, shown: str, ordering: str, expected: str
) -> None:
    for name in "bca":
        make_dag(make_round(make_request(request_name=name).workflow))
        make_site(name=name)
    seen, url = "", f"/api/v1/{path}?page_size=1" + (f"&ordering={ordering}" if ordering else "")
    while url:
        body = viewer.get(url).json()
        seen += "".join(row[shown] for row in body["results"])
        url = body["next"]
    assert seen == expected
    refused = viewer.get(f"/api/v1/{path}?ordering=mood")
    assert (refused.status_code, set(refused.json()["errors"])) == (422, {"ordering"})


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("requests?campaign=a&campaign=b", "campaign"),
        ("requests?fields=status&fields=request_name", "fields"),
        ("requests/a?fields=status&fields=request_name", "fields"),
        ("workflows?ordering=created_at&ordering=-created_at", "ordering"),
        ("sites?cursor=a&cursor=b", "cursor"),
        ("errors?days=1&days=2", "days"),
        ("alerts?kind=a&kind=b", "kind"),
    ],
)
def test_a_parameter_given_twice_is_refused(viewer: APIClient, query: str, name: str) -> None:
    make_request(request_name="a")
    answer = viewer.get(f"/api/v1/{query}")
    assert (answer.status_code, set(answer.json()["errors"])) == (422, {name})


@pytest.mark.parametrize("ordering", ["created_at", "-request_name"])
@pytest.mark.parametrize("position", ["%00", "a%00b"])
def test_a_cursor_that_is_no_value_is_not_found(viewer: APIClient, ordering: str, position: str) -> None:
    make_request()
    cursor = b64encode(f"p={position}".encode()).decode()
    assert viewer.get(URL, {"ordering": ordering, "cursor": cursor}).status_code == 404


def test_a_made_up_cursor_is_read_as_a_value_of_the_ordering(viewer: APIClient) -> None:
    make_request()
    cursor = b64encode(f"p={'9' * 50}".encode()).decode()
    by_time = viewer.get(URL, {"ordering": "created_at", "cursor": cursor})
    by_name = viewer.get(URL, {"ordering": "-request_name", "cursor": cursor})
    assert by_time.status_code == 404, "it is no time"
    assert (by_name.status_code, by_name.json()["results"]) == (200, []), "it may be a name"


@pytest.mark.parametrize("method", ["SELECT", "QUERYSET", "TRACE", "FOO"])
@pytest.mark.parametrize("role", [Role.ANONYMOUS, Role.VIEWER])
def test_an_unsupported_method_is_refused(api_as: ApiAs, role: Role, method: str) -> None:
    """This includes methods with the name of an attribute of the view."""
    answer = api_as(role).generic(method, URL)
    assert answer.status_code == 405
    assert answer["Allow"] == "GET, POST, HEAD, OPTIONS"


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("docs", "GET", 200), ("docs", "HEAD", 200), ("docs", "OPTIONS", 405), ("docs", "POST", 405),
        ("schema", "GET", 200), ("schema", "HEAD", 200), ("schema", "OPTIONS", 200), ("schema", "POST", 405),
    ],
)  # fmt: skip
def test_the_description_answers_every_method(api_as: ApiAs, path: str, method: str, status: int) -> None:
    assert api_as(Role.ANONYMOUS).generic(method, f"/api/v1/{path}").status_code == status


@pytest.mark.parametrize(
    "view", [RequestListView, WorkflowListView, DAGListView, AlertListView, AuditListView]
)
def test_an_index_has_every_order_of_a_long_list(view: type[ListView]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off"
        )  # if there is another way
    for columns in view.orders.values():
        plan = view.queryset.order_by(*columns)[:50].explain()  # type: ignore[union-attr]
        assert "Sort" not in plan, plan


def walk(viewer: APIClient, url: str, *, towards: str = "next") -> list[dict[str, Any]]:
    """Return the rows of all pages from this one on, in order."""
    seen: list[dict[str, Any]] = []
    while url:
        body = viewer.get(url).json()
        seen += body["results"] if towards == "next" else body["results"][::-1]
        url = body[towards]
    return seen


@pytest.mark.parametrize("ordering", ["priority", "-priority"])
def test_requests_of_the_same_priority_are_walked_without_loss(viewer: APIClient, ordering: str) -> None:
    moment = ago(hours=1)
    for number in range(12):
        make_request(request_name=f"r{number}", priority=5 if number % 4 else 7)
    Request.objects.filter(request_name__in=["r1", "r2", "r3", "r5"]).update(created_at=moment)
    columns = [f"{ordering[:-8]}{name}" for name in ("priority", "created_at", "id")]
    expected = list(Request.objects.order_by(*columns).values_list("request_name", flat=True))
    first = f"{URL}?page_size=5&ordering={ordering}"
    assert [row["request_name"] for row in walk(viewer, first)] == expected
    assert {row["priority"] for row in walk(viewer, first)} == {5, 7}
    second = viewer.get(viewer.get(first).json()["next"]).json()
    back = viewer.get(second["previous"]).json()
    assert [row["request_name"] for row in back["results"]] == expected[:5]
    assert (back["previous"], viewer.get(back["next"]).json()["results"]) == (None, second["results"])


def test_a_deep_page_by_priority_reads_no_more_than_the_first() -> None:
    rows = [make_request(priority=5) for _ in range(100)]
    queryset = Request.objects.order_by("-priority", "-created_at", "-id")
    deep = queryset.filter(beyond(("-priority", "-created_at", "-id"), [5, rows[50].created_at, rows[50].pk]))
    assert [row.pk for row in deep] == [row.pk for row in rows[49::-1]]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE requests_app_request; SET LOCAL enable_seqscan = off")
    plan = deep.all()[:10].explain(analyze=True)
    assert "request_by_priority" in plan
    assert "Rows Removed by Filter" not in plan, plan


def test_requests_are_found_by_their_input_through_an_index() -> None:
    for number in range(200):  # among few rows every index is as good
        make_request(workflow=make_workflow(input_dataset=f"/A/B{number}/RAW"))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE dags_app_workflow, requests_app_request; SET LOCAL enable_seqscan = off")
    assert "workflow_by_input" in Request.objects.filter(workflow__input_dataset="/A/B/RAW").explain()


def test_requests_are_found_by_their_priority_through_an_index() -> None:
    for number in range(200):
        make_request(priority=number)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE requests_app_request; SET LOCAL enable_seqscan = off")
    high = Request.objects.filter(priority__gte=1000).order_by("-created_at", "-id")[:50]
    assert "request_by_priority" in high.explain()


def test_every_problem_has_a_cure(viewer: APIClient, requestor: APIClient, api_as: ApiAs) -> None:
    row = make_request(requestor="bob", submitted_by="bob", version=1)
    operator = api_as(Role.OPERATOR)
    url = f"{URL}/{row.request_name}"
    answers = [
        requestor.generic("POST", URL, "{", content_type="application/json"),
        api_as(Role.ANONYMOUS).get(URL),
        requestor.delete(f"{url}?reason=r"),
        viewer.get(f"{URL}/unknown"),
        viewer.put(URL),
        viewer.get(URL, headers={"Accept": "text/csv"}),
        operator.post(f"{url}/release", {"reason": "r"}),
        operator.patch(url, {"reason": "r", "priority": 1}, headers={"If-Match": '"0"'}),
        requestor.post(URL, {"comment": "x" * 1_000_000}),
        requestor.generic("POST", URL, "a=1", content_type="text/plain"),
        requestor.post(URL, {}),
    ]
    assert [one.status_code for one in answers] == [400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 422]
    for answer in answers:
        body = answer.json()
        assert len(body["cure"]) > 10, body
        assert body["code"], body


def test_the_id_of_a_call_is_in_everything_it_causes(requestor: APIClient, operator: APIClient) -> None:
    requestor.post(
        URL, DOCUMENT | {"input_dataset": None, "total_events": 10}, headers={"X-Request-Id": "c1"}
    )
    row = Request.objects.get()
    advance(row.pk)  # as a worker does, without an HTTP call
    operator.patch(
        f"{URL}/{row.request_name}", {"reason": "r", "priority": 7}, headers={"X-Request-Id": "c2"}
    )
    operator.delete(f"{URL}/{row.request_name}?reason=r", headers={"X-Request-Id": "c3"})

    rows = operator.get(f"{URL}/{row.request_name}/timeline").json()["results"]
    assert [(one["kind"], one["to_status"], one["call_id"]) for one in rows] == [
        ("status", "submitted", "c1"),
        ("status", "queued", "c1"),
        ("change", "", "c2"),
        ("status", "aborted", "c3"),
    ]
    assert [event.request_id for event in AuditEvent.objects.filter(action="change")] == ["c2"]


def test_without_a_call_nothing_is_claimed() -> None:
    row = make_request(status=RequestStatus.QUEUED)
    abort_request(request=row, actor="user:ana", reason="by command")
    assert row.transitions.last().call_id == ""  # type: ignore[union-attr]
