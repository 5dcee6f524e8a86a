"""The public view shows the progress of a request, and nothing else."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from dags_app.states import GroupStatus
from outputs_app.states import BlockStatus
from requests_app.states import RequestStatus
from tests.integration.conftest import ApiAs
from tests.integration.factories import make_block, make_group, make_request, make_round
from wms2_project.access.roles import Role

pytestmark = pytest.mark.django_db
S = RequestStatus


@pytest.fixture
def anybody(api_as: ApiAs) -> APIClient:
    return api_as(Role.ANONYMOUS)


@pytest.mark.parametrize(
    ("status", "public"),
    [(S.QUEUED, "accepted"), (S.ACTIVE, "running"), (S.HELD, "running"), (S.FAILED, "failed"),
     (S.ABORTED, "cancelled")],
)  # fmt: skip
def test_the_public_id_shows_the_state_and_no_internals(
    anybody: APIClient, status: RequestStatus, public: str
) -> None:
    row = make_request(
        status=status, request_name="secret_name", last_error="T2_XX_Secret broke", wait_reason="secret",
        hold_evidence={"site": "secret"},
    )  # fmt: skip
    answer = anybody.get(f"/api/v1/public/requests/{row.pk}")
    assert (answer.status_code, answer.json()["status"]) == (200, public)
    assert "ecret" not in answer.content.decode()
    assert str(row.workflow_id) not in answer.content.decode()


def test_a_completed_request_names_its_datasets(anybody: APIClient) -> None:
    row = make_request(status=S.COMPLETED)
    group = make_group(make_round(row.workflow), status=GroupStatus.COLLECTED)
    make_block(group, status=BlockStatus.ANNOUNCED)
    body = anybody.get(f"/api/v1/public/requests/{row.pk}").json()
    assert (body["progress_percent"], body["error"]) == (100.0, None)
    assert body["result"] == [{"dataset_name": "/Muons/Run2031A-First-v1/AOD", "files": 1, "events": 50}]


def test_an_unknown_id_is_not_found(anybody: APIClient) -> None:
    assert anybody.get("/api/v1/public/requests/00000000-0000-0000-0000-000000000000").status_code == 404
