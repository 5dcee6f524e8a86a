"""Acting on requests: PATCH, release, stop, abort; versions, owners, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from requests_app.models import Request
from requests_app.states import RequestStatus
from tests.integration.factories import make_dag, make_request, make_round

pytestmark = pytest.mark.django_db
S = RequestStatus


def url(row: Request, action: str = "") -> str:
    return f"/api/v1/requests/{row.request_name}{'/' if action else ''}{action}"


def test_a_change_takes_effect_and_raises_the_version(operator: APIClient) -> None:
    row = make_request(status=S.QUEUED)
    body = {"reason": "conference", "priority": 7, "site_whitelist": ["T2_CH_CERN"], "memory_mb": 3000}

    answer = operator.patch(url(row), body, headers={"If-Match": '"0"'})

    assert answer.status_code == 200, answer.json()
    assert answer["ETag"] == '"1"'
    row.refresh_from_db()
    row.workflow.refresh_from_db()
    assert (row.priority, row.workflow.site_whitelist, row.workflow.memory_mb) == (7, ["T2_CH_CERN"], 3000)


@pytest.mark.parametrize("tag", ['"9"', 'W/"9"', '"nonsense"', '"1", "2"'])
def test_a_stale_version_is_a_failed_precondition(operator: APIClient, tag: str) -> None:
    row = make_request(status=S.QUEUED, version=3)
    answer = operator.patch(url(row), {"reason": "r", "priority": 7}, headers={"If-Match": tag})
    assert answer.status_code == 412
    assert answer.json()["code"] == "stale_version"
    row.refresh_from_db()
    assert row.priority == 100_000


@pytest.mark.parametrize("tag", ['"3"', 'W/"3"', "*", '"1", "3"'])
def test_a_matching_version_is_accepted(operator: APIClient, tag: str) -> None:
    row = make_request(status=S.QUEUED, version=3)
    answer = operator.patch(url(row), {"reason": "r", "priority": 7}, headers={"If-Match": tag})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"priority": 7}, "reason"),
        ({"reason": "", "priority": 7}, "reason"),
        ({"reason": "r"}, "body"),
        ({"reason": "r", "priority": -1}, "priority"),
        ({"reason": "r", "priority": 10**7}, "priority"),
        ({"reason": "r", "priority": "soon"}, "priority"),
        ({"reason": "r", "site_whitelist": ["CERN; rm"]}, "site_whitelist[0]"),
        ({"reason": "r", "status": "completed"}, "status"),
        ({"reason": "r", "submitted_by": "mallory"}, "submitted_by"),
        ({"reason": "r", "owner": "me"}, "owner"),
    ],
)
def test_a_wrong_change_names_the_field(operator: APIClient, body: dict[str, Any], field: str) -> None:
    row = make_request(status=S.QUEUED)
    answer = operator.patch(url(row), body)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {field}
    row.refresh_from_db()
    assert row.version == 0


def test_release_queues_a_held_request(operator: APIClient) -> None:
    row = make_request(status=S.HELD, hold_evidence={"reason": "x"})
    answer = operator.post(url(row, "release"), {"reason": "site is back"})
    assert answer.status_code == 200, answer.json()
    body = answer.json()
    assert (body["status"], body["previous_status"], body["reason"]) == ("queued", "held", "site is back")
    assert answer["ETag"] == '"1"'


@pytest.mark.parametrize("status", sorted(set(S) - {S.HELD}))
def test_only_a_held_request_is_released(operator: APIClient, status: RequestStatus) -> None:
    row = make_request(status=status)
    answer = operator.post(url(row, "release"), {"reason": "why not"})
    assert answer.status_code == 409
    assert row.request_name in answer.json()["detail"]


def test_stop_answers_as_documented(operator: APIClient) -> None:
    row = make_request(status=S.ACTIVE)
    dag = make_dag(make_round(row.workflow))

    answer = operator.post(url(row, "stop"), {"reason": "Schedd maintenance window", "hold": True})

    assert answer.status_code == 200, answer.json()
    body = answer.json()
    assert body["status"] == "stopping"
    assert body["previous_status"] == "active"
    assert body["stop_reason"] == "Schedd maintenance window"
    assert "held" in body["message"]
    dag.refresh_from_db()
    row.refresh_from_db()
    assert dag.stop_requested_at is not None
    assert row.hold_after_stop


def test_a_finished_request_cannot_be_stopped(operator: APIClient) -> None:
    row = make_request(status=S.COMPLETED)
    answer = operator.post(url(row, "stop"), {"reason": "late"})
    assert answer.status_code == 409
    assert answer.json()["code"] == "illegal_transition"


@pytest.mark.parametrize("how", ["query", "body", "post"])
def test_abort_takes_its_reason_from_query_or_body(requestor: APIClient, how: str) -> None:
    row = make_request(status=S.QUEUED)
    if how == "query":
        answer = requestor.delete(f"{url(row)}?reason=mistake")
    elif how == "body":
        answer = requestor.delete(url(row), {"reason": "mistake"})
    else:
        answer = requestor.post(url(row, "abort"), {"reason": "mistake"})
    assert answer.status_code == 200, answer.json()
    assert answer.json()["status"] == "aborted"
    assert row.transitions.last().reason == "mistake"  # type: ignore[union-attr]


def test_abort_without_a_reason_is_refused(requestor: APIClient) -> None:
    row = make_request(status=S.QUEUED)
    answer = requestor.delete(url(row))
    assert answer.status_code == 422
    row.refresh_from_db()
    assert row.status == S.QUEUED


@pytest.mark.parametrize(
    "values", [{"requestor": "ana", "submitted_by": "bob"}, {"requestor": "bob", "submitted_by": "ana"}]
)
def test_a_requestor_owns_what_they_asked_for_or_submitted(
    requestor: APIClient, values: dict[str, str]
) -> None:
    row = make_request(status=S.QUEUED, **values)
    assert requestor.patch(url(row), {"reason": "r", "priority": 5}).status_code == 200
    assert requestor.delete(f"{url(row)}?reason=r").status_code == 200


def test_a_requestor_may_not_touch_anothers_request(requestor: APIClient) -> None:
    row = make_request(status=S.QUEUED, requestor="bob", submitted_by="bob")
    answers = [
        requestor.patch(url(row), {"reason": "r", "priority": 5}),
        requestor.delete(f"{url(row)}?reason=r"),
        requestor.post(url(row, "abort"), {"reason": "r"}),
    ]
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    row.refresh_from_db()
    assert (row.status, row.version) == (S.QUEUED, 0)


def test_a_requestor_may_change_only_the_priority(requestor: APIClient) -> None:
    row = make_request(status=S.QUEUED)
    answer = requestor.patch(url(row), {"reason": "r", "priority": 5, "memory_mb": 9000})
    assert answer.status_code == 403


def test_an_operator_may_touch_every_request(operator: APIClient) -> None:
    row = make_request(status=S.QUEUED, requestor="bob", submitted_by="bob")
    assert operator.delete(f"{url(row)}?reason=r").status_code == 200
