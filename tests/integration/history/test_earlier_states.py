"""`GET /requests/{name}?at=…` returns what was recorded then; `/history` the progress over time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from requests_app.models import ProgressSample, Request, StatusTransition
from requests_app.states import RequestStatus
from requests_app.transitions import transition
from tests.integration.factories import ago, make_dag, make_request, make_round

pytestmark = pytest.mark.django_db


@pytest.fixture
def held() -> Request:
    """Return a request that was queued 3 h ago, active 2 h ago, and held 1 h ago."""
    row = make_request(status=RequestStatus.QUEUED, status_since=ago(hours=3))
    for status, hours, reason in (("active", 2, "planned"), ("held", 1, "too many failures")):
        StatusTransition.objects.create(
            request=row, from_status="queued", to_status=status, reason=reason, actor="system:lifecycle",
            at=ago(hours=hours),
        )  # fmt: skip
    Request.objects.filter(pk=row.pk).update(status="held", status_since=ago(hours=1))
    for minutes, status, gate, done in ((170, "queued", "admission", 0), (90, "active", "", 40)):
        ProgressSample.objects.create(
            request=row, at=ago(minutes=minutes), status=status, gate=gate, reason=f"because of {gate}",
            events_total=100, events_done=done,
        )  # fmt: skip
    make_dag(make_round(row.workflow), status="partial", submitted_at=ago(hours=2), completed_at=ago(hours=1))
    row.refresh_from_db()
    return row


def at(client: APIClient, row: Request, **ago_: float) -> dict[str, Any]:
    moment = timezone.now() - timedelta(**ago_)
    answer = client.get(f"/api/v1/requests/{row.request_name}", {"at": moment.isoformat()})
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def test_status_progress_reason_and_dags_are_those_of_the_time(viewer: APIClient, held: Request) -> None:
    waiting, active, now = (at(viewer, held, minutes=minutes) for minutes in (150, 80, 1))
    assert (waiting["status"], waiting["gate"], waiting["wait_reason"]) == (
        "queued", "admission", "because of admission",
    )  # fmt: skip
    assert (active["status"], active["reason"], active["progress"]["events_done"]) == (
        "active",
        "planned",
        40,
    )
    assert [len(one["dags"]) for one in (waiting, active, now)] == [0, 1, 0]
    assert (now["status"], now["reason"]) == ("held", "too many failures")
    assert [one["to_status"] for one in now["decisions"]] == ["held", "active", "queued"]
    assert [one["to_status"] for one in active["decisions"]] == ["active", "queued"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("yesterday", "Give an ISO time"),
        ("2001-01-01T00:00:00Z", "was created at"),
        ("2999-01-01T00:00:00Z", "in the future"),
        ("", "Give an ISO time"),
    ],
)
def test_a_time_without_a_record_is_refused_by_its_field(
    viewer: APIClient, held: Request, given: str, message: str
) -> None:
    answer = viewer.get(f"/api/v1/requests/{held.request_name}", {"at": given})
    assert answer.status_code == 422
    assert message in answer.json()["errors"]["at"]


def test_the_evidence_of_a_hold_outlives_its_release(viewer: APIClient) -> None:
    row = make_request(status=RequestStatus.ACTIVE, status_since=ago(hours=1))
    evidence = {"reason": "2 jobs failed", "failed": 2}
    changes = {"hold_evidence": evidence, "last_error": "2 jobs failed"}
    transition(request=row, to=RequestStatus.HELD, reason="2 jobs failed", actor="system:l", changes=changes)
    during = timezone.now()
    released = {"hold_evidence": None}
    transition(request=row, to=RequestStatus.QUEUED, reason="again", actor="user:ana", changes=released)

    url = f"/api/v1/requests/{row.request_name}"
    assert viewer.get(url, {"at": during.isoformat()}).json()["hold_evidence"] == evidence
    assert at(viewer, row)["hold_evidence"] is None


def test_a_hold_of_the_present_has_evidence_if_its_change_has_none(viewer: APIClient, held: Request) -> None:
    moment = StatusTransition.objects.get(request=held, to_status="held").at
    Request.objects.filter(pk=held.pk).update(status_since=moment, hold_evidence={"reason": "r"})
    assert at(viewer, held, minutes=1)["hold_evidence"] == {"reason": "r"}
    assert at(viewer, held, minutes=80)["hold_evidence"] is None


def test_history_has_the_samples_oldest_first(viewer: APIClient, held: Request) -> None:
    answer = viewer.get(f"/api/v1/requests/{held.request_name}/history")
    assert [one["events_done"] for one in answer.json()["samples"]] == [0, 40]
