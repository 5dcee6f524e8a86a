"""POST /api/v1/requests: by document, by name, repeated, refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from dags_app.adapters import build_reqmgr2
from requests_app.api.inputs import EXAMPLE
from requests_app.models import Request
from tests.integration.conftest import ApiAs
from tests.integration.factories import DOCUMENT, make_document, make_request
from tests.stand_in import FromSettings
from wms2_project.access.roles import Role

pytestmark = pytest.mark.django_db
URL = "/api/v1/requests"


def test_the_example_of_the_description_is_accepted_as_it_stands(requestor: APIClient) -> None:
    answer = requestor.post(URL, EXAMPLE)
    assert (answer.status_code, answer.json()["request_name"]) == (201, "my_first_request")


def test_a_document_becomes_a_submitted_request(requestor: APIClient) -> None:
    answer = requestor.post(URL, DOCUMENT)

    assert answer.status_code == 201, answer.json()
    stored = Request.objects.get(request_name="ana_Muons_2031A_v1")
    assert answer.json() == {
        "request_id": str(stored.pk),
        "request_name": "ana_Muons_2031A_v1",
        "status": "submitted",
        "workflow": {"id": str(stored.workflow_id), "status": "new"},
        "links": {
            "self": "/api/v1/requests/ana_Muons_2031A_v1",
            "timeline": "/api/v1/requests/ana_Muons_2031A_v1/timeline",
            "progress": "/api/v1/requests/ana_Muons_2031A_v1/progress",
            "why": "/api/v1/requests/ana_Muons_2031A_v1/why",
            "versions": "/api/v1/requests/ana_Muons_2031A_v1/versions",
            "workflow": f"/api/v1/workflows/{stored.workflow_id}",
            "public": f"/api/v1/public/requests/{stored.pk}",
        },
    }
    assert answer["Location"] == "/api/v1/requests/ana_Muons_2031A_v1"
    assert answer["ETag"] == '"0"'
    assert stored.request_data == DOCUMENT
    assert [row.actor for row in stored.transitions.all()] == ["user:ana"]


def test_every_wrong_field_is_named_and_nothing_is_stored(requestor: APIClient) -> None:
    answer = requestor.post(URL, DOCUMENT | {"priority": -1, "splitting_algo": "ByMood", "input_dataset": ""})

    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"priority", "splitting_algo", "input_dataset"}
    assert not Request.objects.exists()


def test_the_same_key_and_body_answers_the_first_request_again(requestor: APIClient) -> None:
    first = requestor.post(URL, DOCUMENT, headers={"Idempotency-Key": "k1"})
    Request.objects.update(status="queued", version=4)
    again = requestor.post(URL, DOCUMENT, headers={"Idempotency-Key": "k1"})

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert ("Idempotency-Replayed" in first, again["Idempotency-Replayed"]) == (False, "true")
    assert Request.objects.count() == 1


def test_a_key_is_its_callers_own(requestor: APIClient, operator: APIClient) -> None:
    requestor.post(URL, DOCUMENT, headers={"Idempotency-Key": "k1"})
    other = operator.post(URL, make_document(request_name="b"), headers={"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["request_name"]) == (201, "b")


@pytest.mark.parametrize(("who", "submitter"), [("requestor", "ana"), ("operator", "portal")])
def test_only_an_operator_names_another_submitter(
    request: pytest.FixtureRequest, who: str, submitter: str
) -> None:
    client: APIClient = request.getfixturevalue(who)
    answer = client.post(URL, DOCUMENT | {"submitted_by": "portal", "correlation_id": "order:7"})
    assert answer.status_code == 201, answer.json()
    assert Request.objects.get().submitted_by == submitter
    (found,) = client.get(f"{URL}?correlation_id=order:7").json()["results"]
    assert found["request_id"] == answer.json()["request_id"]


def test_a_batch_answers_for_each_member(requestor: APIClient) -> None:
    batch = {"requests": [DOCUMENT, DOCUMENT | {"priority": -1}, 7, DOCUMENT, make_document()]}

    answer = requestor.post(f"{URL}/batch", batch, headers={"Idempotency-Key": "b1"})

    body = answer.json()
    assert (answer.status_code, body["accepted"], body["refused"]) == (200, 2, 3)
    assert [one["status"] for one in body["results"]] == [201, 422, 422, 409, 201]
    assert set(body["results"][1]["problem"]["errors"]) == {"priority"}
    assert body["results"][3]["problem"]["code"] == "conflict"
    again = requestor.post(f"{URL}/batch", batch, headers={"Idempotency-Key": "b1"}).json()
    assert again["results"][0] == body["results"][0]
    assert Request.objects.count() == 2


@pytest.mark.parametrize(
    "body", [{}, {"requests": []}, {"requests": [{}] * 101}, [], {"requests": [], "a": 1}]
)
def test_a_batch_of_another_size_or_shape_is_refused(requestor: APIClient, body: Any) -> None:
    answer = requestor.post(f"{URL}/batch", body)
    assert answer.status_code == 422
    assert not Request.objects.exists()


def test_the_same_key_with_another_body_is_a_conflict(requestor: APIClient) -> None:
    requestor.post(URL, DOCUMENT, headers={"Idempotency-Key": "k1"})
    other = requestor.post(URL, DOCUMENT | {"priority": 1}, headers={"Idempotency-Key": "k1"})

    assert other.status_code == 409
    assert "Idempotency-Key" in other.json()["detail"]


def test_a_taken_name_is_a_conflict(requestor: APIClient) -> None:
    requestor.post(URL, DOCUMENT)
    assert requestor.post(URL, DOCUMENT).status_code == 409


@pytest.mark.parametrize("key", ["k" * 201, "tab\tbed"])
def test_an_unusable_idempotency_key_is_refused(requestor: APIClient, key: str) -> None:
    answer = requestor.post(URL, DOCUMENT, headers={"Idempotency-Key": key})
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"Idempotency-Key"}


@pytest.mark.parametrize("body", [[], "text", 7, None, [DOCUMENT]])
def test_a_body_that_is_no_object_is_refused(requestor: APIClient, body: Any) -> None:
    answer = requestor.post(URL, json.dumps(body), content_type="application/json")
    assert answer.status_code == 422


@pytest.mark.usefixtures("reqmgr2")
def test_a_name_is_fetched_from_reqmgr2(requestor: APIClient) -> None:
    answer = requestor.post(URL, {"request_name": DOCUMENT["request_name"], "source": "reqmgr2"})

    assert answer.status_code == 201, answer.json()
    assert Request.objects.get().source == "reqmgr2"


BY_NAME = {"request_name": DOCUMENT["request_name"], "source": "reqmgr2"}


@pytest.mark.usefixtures("reqmgr2")
@pytest.mark.parametrize(("who", "submitter"), [("requestor", "ana"), ("operator", "portal")])
def test_an_import_by_name_accepts_fields_that_reqmgr2_does_not_have(
    request: pytest.FixtureRequest, settings: Any, who: str, submitter: str
) -> None:
    settings.CALLBACK_HOSTS = ["portal.example.org"]
    beside = {"correlation_id": "order:7", "callback_url": "https://portal.example.org/done"}
    client: APIClient = request.getfixturevalue(who)

    answer = client.post(URL, BY_NAME | beside | {"submitted_by": "portal"})

    assert answer.status_code == 201, answer.json()
    made = Request.objects.get()
    assert (made.correlation_id, made.callback_url) == ("order:7", "https://portal.example.org/done")
    assert made.submitted_by == submitter
    assert made.request_data == DOCUMENT


@pytest.mark.usefixtures("reqmgr2")
@pytest.mark.parametrize(
    ("name", "value"),
    [("callback_url", "https://evil.example.org/"), ("callback_url", "ftp://a"), ("correlation_id", "a\nb")],
)
def test_fields_beside_a_name_are_checked_as_in_a_document(
    requestor: APIClient, name: str, value: str
) -> None:
    answer = requestor.post(URL, BY_NAME | {name: value})
    assert (answer.status_code, set(answer.json()["errors"])) == (422, {name})
    assert not Request.objects.exists()


@pytest.mark.usefixtures("reqmgr2")
def test_a_key_with_the_same_name_for_another_purpose_is_a_conflict(requestor: APIClient) -> None:
    key = {"Idempotency-Key": "n1"}
    first = requestor.post(URL, BY_NAME | {"correlation_id": "a"}, headers=key)
    again = requestor.post(URL, BY_NAME | {"correlation_id": "a"}, headers=key)
    other = requestor.post(URL, BY_NAME | {"correlation_id": "b"}, headers=key)
    assert [one.status_code for one in (first, again, other)] == [201, 201, 409]


def test_a_repeated_name_is_answered_without_reqmgr2(
    requestor: APIClient, reqmgr2: None, settings: Any, adapt: Callable[..., None]
) -> None:
    body, key = {"request_name": DOCUMENT["request_name"], "source": "reqmgr2"}, {"Idempotency-Key": "n1"}
    first = requestor.post(URL, body, headers=key)
    settings.CMS_SERVICES = settings.CMS_SERVICES | {"reqmgr2_url": "http://127.0.0.1:1"}
    adapt(reqmgr2=FromSettings(build_reqmgr2))
    again = requestor.post(URL, body, headers=key)
    assert (again.status_code, again.json()) == (201, first.json())


@pytest.mark.usefixtures("reqmgr2")
def test_a_name_unknown_to_reqmgr2_is_not_found(requestor: APIClient) -> None:
    answer = requestor.post(URL, {"request_name": "unknown_request", "source": "reqmgr2"})
    assert answer.status_code == 404
    assert not Request.objects.exists()


def test_a_by_name_import_takes_no_other_members(requestor: APIClient) -> None:
    answer = requestor.post(URL, {"request_name": "a", "source": "reqmgr2", "priority": 1})
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"priority"}


@pytest.mark.parametrize("name", ["../etc/passwd", "a\nb", "", "x" * 201])
def test_a_by_name_import_checks_the_name_before_it_calls_reqmgr2(requestor: APIClient, name: str) -> None:
    answer = requestor.post(URL, {"request_name": name, "source": "reqmgr2"})
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"request_name"}


REPLACES = DOCUMENT | {
    "request_name": "newer",
    "previous_version_request": "older",
    "cleanup_policy": "immediate_cleanup",
}


@pytest.mark.parametrize(
    ("role", "name", "status"),
    [
        (Role.REQUESTOR, "mallory", 403),
        (Role.REQUESTOR, "bob", 201),
        (Role.REQUESTOR, "portal", 201),
        (Role.OPERATOR, "olga", 201),
    ],
)
def test_only_the_owners_and_operators_replace_a_request(
    api_as: ApiAs, role: Role, name: str, status: int
) -> None:
    """The newer version's policy ends the outputs of the older one."""
    make_request(request_name="older", requestor="bob", submitted_by="portal")

    answer = api_as(role, name).post(URL, REPLACES | {"requestor": name})

    assert answer.status_code == status, answer.json()
    assert Request.objects.filter(request_name="newer").exists() == (status == 201)


def test_a_batch_cannot_replace_a_request_of_another_user(api_as: ApiAs) -> None:
    make_request(request_name="older", requestor="bob")
    batch = {"requests": [REPLACES | {"requestor": "mallory"}]}
    body = api_as(Role.REQUESTOR, "mallory").post(f"{URL}/batch", batch).json()
    assert (body["results"][0]["status"], body["accepted"]) == (403, 0)


def test_a_request_is_replaced_once(operator: APIClient) -> None:
    older = make_request(request_name="older")
    make_request(request_name="first", previous_version=older)

    answer = operator.post(URL, REPLACES)

    assert answer.status_code == 409
    assert "older was already replaced by first" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("who", "priority", "status"),
    [("requestor", 500_000, 201), ("requestor", 500_001, 403), ("operator", 1_000_000, 201)],
)
def test_a_requestor_imports_up_to_the_priority_of_a_later_change(
    request: pytest.FixtureRequest, who: str, priority: int, status: int
) -> None:
    client: APIClient = request.getfixturevalue(who)

    answer = client.post(URL, DOCUMENT | {"priority": priority, "urgent": True})

    assert answer.status_code == status, answer.json()
    assert Request.objects.filter(priority=priority, urgent=True).exists() == (status == 201)


@pytest.mark.usefixtures("reqmgr2")
def test_the_priority_that_reqmgr2_gave_stands(requestor: APIClient, settings: Any) -> None:
    settings.REQUESTOR_MAX_PRIORITY = DOCUMENT["priority"] - 1
    answer = requestor.post(URL, {"request_name": DOCUMENT["request_name"], "source": "reqmgr2"})
    assert answer.status_code == 201, answer.json()
