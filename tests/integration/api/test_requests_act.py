"""Acting on requests: PATCH, release, stop, abort; versions, owners, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from dags_app.states import DAGStatus
from requests_app.models import Request
from requests_app.states import RequestStatus
from tests.integration.factories import make_dag, make_request, make_round, make_site

pytestmark = pytest.mark.django_db
S = RequestStatus


def url(row: Request, action: str = "") -> str:
    return f"/api/v1/requests/{row.request_name}{'/' if action else ''}{action}"


def test_a_change_takes_effect_and_raises_the_version(operator: APIClient) -> None:
    make_site()
    row = make_request(status=S.QUEUED)
    body = {"reason": "conference", "priority": 7, "site_whitelist": ["T2_CH_CERN"], "memory_mb": 3000}

    answer = operator.patch(url(row), body, headers={"If-Match": '"0"'})

    assert answer.status_code == 200, answer.json()
    assert answer["ETag"] == '"1"'
    row.refresh_from_db()
    row.workflow.refresh_from_db()
    flow = row.workflow
    assert (row.priority, flow.site_whitelist, flow.chosen_memory_mb) == (7, ["T2_CH_CERN"], 3000)


@pytest.mark.parametrize("tag", ['"9"', 'W/"3"', "3", '"3', '"nonsense"', '"1", "2"'])
def test_a_stale_version_is_a_failed_precondition(operator: APIClient, tag: str) -> None:
    row = make_request(status=S.QUEUED, version=3)
    answer = operator.patch(url(row), {"reason": "r", "priority": 7}, headers={"If-Match": tag})
    assert answer.status_code == 412
    assert answer.json()["code"] == "stale_version"
    row.refresh_from_db()
    assert row.priority == 100_000


@pytest.mark.parametrize("tag", ['"3"', "*", '"1", "3"', 'W/"3", "3"'])
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
        ({"reason": "r", "priority": "7"}, "priority"),
        ({"reason": "r", "priority": True}, "priority"),
        ({"reason": 0, "priority": 7}, "reason"),
        ({"reason": "r", "site_whitelist": "T2_CH_CERN"}, "site_whitelist"),
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
def test_a_requestor_owns_requests_in_their_name_and_those_they_submitted(
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


def test_a_requestor_may_not_exceed_the_priority_limit(requestor: APIClient) -> None:
    row = make_request(status=S.QUEUED)
    answer = requestor.patch(url(row), {"reason": "mine first", "priority": 900_000})
    assert answer.status_code == 403
    assert "500000" in answer.json()["detail"]


@pytest.mark.parametrize(
    "lists",
    [
        {"site_whitelist": ["T2_XX_Unknown"]},
        {"site_blacklist": ["T2_CH_CERN"]},
        {"site_whitelist": ["T2_CH_CERN"], "site_blacklist": ["T2_CH_CERN"]},
    ],
)
def test_a_change_that_leaves_no_site_is_refused(operator: APIClient, lists: dict[str, Any]) -> None:
    make_site()
    row = make_request(status=S.ACTIVE)
    for extra in ({}, {"dry_run": True}):
        answer = operator.patch(url(row), {"reason": "r"} | lists | extra)
        assert answer.status_code == 422
        assert set(answer.json()["errors"]) == set(lists)
    row.refresh_from_db()
    assert (row.version, row.workflow.site_whitelist, row.workflow.site_blacklist) == (0, [], [])


def test_a_dry_run_lists_the_effects_of_a_change_and_changes_nothing(operator: APIClient) -> None:
    make_site()
    row = make_request(status=S.ACTIVE)
    make_dag(make_round(row.workflow))
    everything = {
        "priority": 9, "memory_mb": 3000, "site_whitelist": ["T2_CH_CERN"],
        "category_throttles": {"MergeGroup": 3},
    }  # fmt: skip

    answer = operator.patch(url(row), {"reason": "r", "dry_run": True} | everything)

    assert answer.status_code == 200, answer.json()
    body = answer.json()
    assert [line.split(":")[0] for line in body["now"]] == ["priority", "priority"]
    assert [line.split(":")[0] for line in body["next_round"]] == ["memory_mb"]  # in a rescue
    assert {line.split(":")[0] for line in body["never"]} == {"sites", "memory_mb", "category_throttles"}
    row.refresh_from_db()
    assert (row.version, row.priority, row.workflow.chosen_memory_mb) == (0, 100_000, None)
    row.workflow.adaptive = True
    row.workflow.save()
    later = operator.patch(url(row), {"reason": "r", "dry_run": True} | everything).json()["next_round"]
    assert [line.split(":")[0] for line in later] == ["sites", "memory_mb", "memory_mb", "category_throttles"]


@pytest.mark.parametrize(("status", "planned_anew"), [(DAGStatus.FAILED, True), (DAGStatus.STOPPED, False)])
def test_a_change_applies_to_groups_planned_after_the_release_of_a_held_request(
    status: DAGStatus, planned_anew: bool, operator: APIClient
) -> None:
    row = make_request(status=S.HELD)
    make_dag(make_round(row.workflow), status=status)
    throttles = {"category_throttles": {"Merge": 3}}
    body = operator.patch(url(row), {"reason": "r", "dry_run": True} | throttles).json()
    assert bool(body["next_round"]) is planned_anew
    assert bool(body["never"]) is not planned_anew
    memory = operator.patch(url(row), {"reason": "r", "dry_run": True, "memory_mb": 3000}).json()
    result = memory["next_round"][0]
    assert ("planned from then on" in result, "resume" in result) == (planned_anew, not planned_anew)


def test_every_change_moves_the_workflows_version_so_that_queued_jobs_follow(operator: APIClient) -> None:
    row = make_request(status=S.ACTIVE)
    operator.patch(url(row), {"reason": "r", "priority": 9, "category_throttles": {"Merge": 7}})
    row.workflow.refresh_from_db()
    assert (row.workflow.version, row.workflow.category_throttles) == (1, {"Merge": 7})


@pytest.mark.parametrize("throttles", [{}, {"Merge": 0}, {"Landing": 3}, {"Merge": "many"}, 7])
def test_wrong_throttles_are_refused(operator: APIClient, throttles: Any) -> None:
    row = make_request(status=S.ACTIVE)
    answer = operator.patch(url(row), {"reason": "r", "category_throttles": throttles})
    assert answer.status_code == 422


@pytest.mark.parametrize("status", [S.SUBMITTED, S.QUEUED, S.PARTIAL, S.RESUBMITTING])
@pytest.mark.parametrize("hold", [True, False])
def test_a_stop_where_nothing_runs_only_holds(operator: APIClient, status: RequestStatus, hold: bool) -> None:
    row = make_request(status=status)
    body = operator.post(url(row, "stop"), {"reason": "not now", "hold": hold}).json()
    assert (body["status"], body["previous_status"]) == ("held", status)
    assert "until it is released" in body["message"]


def test_a_stop_of_the_jobs_of_a_held_request_reports_that_it_stays_held(operator: APIClient) -> None:
    row = make_request(status=S.HELD)
    refused = operator.post(url(row, "stop"), {"reason": "maintenance"})
    assert (refused.status_code, "has no running jobs" in refused.json()["detail"]) == (409, True)
    make_dag(make_round(row.workflow))
    body = operator.post(url(row, "stop"), {"reason": "maintenance"}).json()
    assert (body["status"], "stays held" in body["message"]) == ("stopping", True)


@pytest.mark.parametrize("status", [S.PILOT_RUNNING, S.PLANNING, S.ACTIVE])
def test_a_stop_where_something_may_run_is_clean(operator: APIClient, status: RequestStatus) -> None:
    row = make_request(status=status)
    assert operator.post(url(row, "stop"), {"reason": "now"}).json()["status"] == "stopping"
    again = operator.post(url(row, "stop"), {"reason": "now!"})
    assert again.status_code == 409
    assert "is stopping" in again.json()["detail"]


@pytest.mark.parametrize("status", sorted(set(S) - {S.COMPLETED, S.FAILED, S.ABORTED}))
def test_every_unfinished_request_can_be_aborted(operator: APIClient, status: RequestStatus) -> None:
    row = make_request(status=status)
    assert operator.post(url(row, "abort"), {"reason": "enough"}).json()["status"] == "aborted"
