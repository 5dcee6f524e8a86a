"""GET /admission/queue: every queued request with its position, expected start and the gate that stops it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from requests_app import admission
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from tests.integration.factories import ago, make_request

pytestmark = pytest.mark.django_db
URL = "/api/v1/admission/queue"


def pages(viewer: APIClient, url: str) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    while url:
        body = viewer.get(url).json()
        seen += body["results"]
        url = body["next"]
    return seen


def test_every_queued_request_is_listed_in_its_order_with_its_position(viewer: APIClient) -> None:
    for name, priority in (("c", 5), ("a", 9), ("b", 9), ("d", 1)):
        make_request(request_name=name, priority=priority, status=S.QUEUED)
    make_request(request_name="full", priority=8, status=S.QUEUED, wait_gate="storage", wait_reason="is full")
    make_request(request_name="runs", status=S.ACTIVE)
    Request.objects.filter(request_name="b").update(created_at=ago(hours=1))
    rows = pages(viewer, f"{URL}?page_size=2")
    assert [(row["request_name"], row["position"]) for row in rows] == [
        ("b", 1), ("a", 2), ("full", None), ("c", 3), ("d", 4),
    ]  # fmt: skip
    assert [(row["gate"], row["wait_reason"], row["expected_start"]) for row in rows][2] == (
        "storage", "is full", None,
    )  # fmt: skip
    assert (rows[0]["priority"], rows[0]["rank"]) == (9, 9.0)
    turned = pages(viewer, f"{URL}?page_size=2&ordering=-position")
    assert [row["request_name"] for row in turned] == ["d", "c", "full", "a", "b"]
    assert [row["position"] for row in turned] == [4, 3, None, 2, 1]


def test_the_expected_start_is_known_while_there_are_places(viewer: APIClient) -> None:
    admission.change_limits(changes={"max_active_dags": 2}, actor="user:olga", reason="test")
    make_request(status=S.ACTIVE)
    for number in range(3):
        make_request(status=S.QUEUED, priority=9 - number)
    first, second, third = viewer.get(URL).json()["results"]
    assert (first["expected_start"]["places_needed"], second["expected_start"]) == (0, None)
    assert third["position"] == 3


def test_the_page_shows_the_usage_of_admission(viewer: APIClient) -> None:
    make_request(status=S.ACTIVE)
    make_request(request_name="next", status=S.QUEUED)
    body = viewer.get(URL).json()
    assert (body["active_dags"], body["queued_workflows"], body["max_active_dags"]) == (1, 1, 300)
    assert (body["next_in_queue"]["request_name"], body["next"], body["previous"]) == ("next", None, None)


def test_a_longer_page_takes_no_more_queries(viewer: APIClient) -> None:
    for number in range(20):
        make_request(status=S.QUEUED, priority=number)
    viewer.get(URL)  # makes the row of limits and notes that the token is used
    asked = []
    for size in (2, 20):
        with CaptureQueriesContext(connection) as queries:
            assert len(viewer.get(f"{URL}?page_size={size}").json()["results"]) == size
        asked.append(len(queries))
    assert asked[0] == asked[1]


@pytest.mark.parametrize("query", ["colour=red", "ordering=mood", "page_size=0"])
def test_a_wrong_parameter_is_refused(viewer: APIClient, query: str) -> None:
    assert viewer.get(f"{URL}?{query}").status_code == 422
