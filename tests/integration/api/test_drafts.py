"""Drafts: entered, edited and submitted by their owners; until then WMS2 does not process them."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from rest_framework.test import APIClient

from requests_app.lifecycle.due import claim_requests
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from tests.integration.conftest import ApiAs
from tests.integration.factories import DOCUMENT
from wms2_project.access.roles import Role
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
URL = "/api/v1/requests"
NAME = DOCUMENT["request_name"]


@pytest.fixture
def draft(requestor: APIClient) -> Request:
    answer = requestor.post(URL, DOCUMENT | {"draft": True})
    assert (answer.status_code, answer.json().get("status")) == (201, "new"), answer.json()
    return Request.objects.select_related("workflow").get()


def edit(client: APIClient, **body: Any) -> Any:
    return client.patch(f"{URL}/{NAME}", {"reason": "second thoughts"} | body)


def submit(client: APIClient) -> Any:
    return client.post(f"{URL}/{NAME}/submit", {"reason": "it is ready"})


def test_a_draft_is_stored_without_its_mark_and_not_processed(draft: Request, viewer: APIClient) -> None:
    assert (draft.request_data, draft.status) == (DOCUMENT, S.NEW)
    Request.objects.update(next_check_at=timezone.now())
    assert claim_requests() == []
    why = viewer.get(f"{URL}/{NAME}/why").json()
    assert why["summary"] == "the request is a draft"


def test_its_owner_submits_it_once(draft: Request, requestor: APIClient) -> None:
    answer = submit(requestor)
    assert (answer.status_code, answer.json()["status"]) == (200, "submitted")
    again = submit(requestor)
    assert (again.status_code, again.json()["detail"]) == (409, f"{NAME} is submitted, not a draft")


def test_others_neither_edit_nor_submit_nor_abort_it(draft: Request, api_as: ApiAs) -> None:
    other = api_as(Role.REQUESTOR, "bob")
    refused = [submit(other), edit(other, priority=3), other.delete(f"{URL}/{NAME}?reason=r")]
    assert [answer.status_code for answer in refused] == [403, 403, 403]
    assert Request.objects.get().status == S.NEW


def test_its_owner_edits_any_field_of_the_document(draft: Request, requestor: APIClient) -> None:
    document = {"splitting_params": {"files_per_job": 7}, "campaign": "Muons2032"}
    answer = edit(requestor, memory_mb=3000, site_whitelist=["T2_CH_CERN"], document=document)
    assert answer.status_code == 200, answer.json()
    row = Request.objects.select_related("workflow").get()
    flow = row.workflow
    assert (row.status, row.version, row.campaign) == (S.NEW, 1, "Muons2032")
    assert (flow.memory_mb, flow.chosen_memory_mb, flow.site_whitelist) == (3000, None, ["T2_CH_CERN"])
    assert (flow.splitting_params["files_per_job"], flow.pk) == (7, draft.workflow_id)
    assert row.request_data["memory_mb"] == 3000
    assert AuditEvent.objects.get(action="change").detail["changes"]["memory_mb"] == 3000


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"document": {"splitting_algo": "ByMood"}}, 422, "splitting_algo"),
        ({"document": {"request_name": "another"}}, 422, "request_name"),
        ({"document": {"requestor": "bob"}}, 422, "requestor"),
        ({"document": {}}, 422, "document"),
        ({"priority": 1_000_000}, 403, "requestors may set a priority up to"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_wrong_edit_is_refused_and_changes_nothing(
    draft: Request, requestor: APIClient, body: dict[str, Any], status: int, message: str, dry_run: bool
) -> None:
    answer = edit(requestor, dry_run=dry_run, **body)
    assert answer.status_code == status, answer.json()
    assert message in str(answer.json())
    assert Request.objects.get().version == 0


def test_the_document_of_a_submitted_request_is_fixed(requestor: APIClient, operator: APIClient) -> None:
    requestor.post(URL, DOCUMENT)
    answer = edit(operator, document={"campaign": "Muons2032"})
    assert answer.status_code == 422
    assert answer.json()["errors"] == {"document": "can be changed only while the request is a draft"}


def test_an_aborted_draft_is_not_submitted(draft: Request, requestor: APIClient) -> None:
    assert requestor.delete(f"{URL}/{NAME}?reason=wrong").json()["status"] == "aborted"
    assert submit(requestor).status_code == 409


def test_a_repeated_key_answers_as_the_first_time(requestor: APIClient) -> None:
    headers = {"Idempotency-Key": "k1"}
    first = requestor.post(URL, DOCUMENT | {"draft": True}, headers=headers)
    submit(requestor)
    again = requestor.post(URL, DOCUMENT | {"draft": True}, headers=headers)
    assert (again.status_code, again.json()) == (201, first.json())
    other = requestor.post(URL, DOCUMENT, headers=headers)
    assert other.status_code == 409, "the same document, submitted at once, is another wish"


def test_the_mark_of_a_draft_is_true_or_false(requestor: APIClient) -> None:
    answer = requestor.post(URL, DOCUMENT | {"draft": "yes"})
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["draft"])


def test_the_shell_edits_and_submits_drafts(draft: Request) -> None:
    call_command("request", "edit", NAME, "--reason", "r", "--priority", "7")
    call_command("request", "submit", NAME, "--reason", "r")
    row = Request.objects.get()
    assert (row.priority, row.status) == (7, S.SUBMITTED)
