"""The status has one writer, and its history cannot be edited."""

from __future__ import annotations

import pytest
from django.db import InternalError, transaction
from django.db.utils import IntegrityError

from requests_app.models import Request, StatusTransition
from requests_app.states import RequestStatus
from requests_app.transitions import transition
from tests.integration.factories import make_request
from wms2_project.errors import IllegalTransition, StaleVersion

pytestmark = pytest.mark.django_db


def test_a_move_is_recorded_with_its_actor_and_reason() -> None:
    request = make_request(status=RequestStatus.SUBMITTED)
    before = request.status_since
    transition(request=request, to=RequestStatus.QUEUED, reason="input resolved", actor="system:test")
    row = StatusTransition.objects.filter(request=request).latest("id")
    assert (row.from_status, row.to_status, row.reason, row.actor) == (
        "submitted", "queued", "input resolved", "system:test",
    )  # fmt: skip
    assert request.status == "queued"
    assert request.status_since > before


def test_an_illegal_move_changes_nothing_and_lists_the_legal_ones() -> None:
    request = make_request(status=RequestStatus.SUBMITTED)
    with pytest.raises(IllegalTransition, match="aborted, held, queued"):
        transition(request=request, to=RequestStatus.COMPLETED, reason="hope", actor="system:test")
    assert Request.objects.get(pk=request.pk).status == "submitted"
    assert StatusTransition.objects.filter(to_status="completed").count() == 0


def test_a_decision_on_an_older_version_is_refused() -> None:
    request = make_request(status=RequestStatus.QUEUED)
    rival = Request.objects.get(pk=request.pk)
    transition(request=rival, to=RequestStatus.ABORTED, reason="not needed", actor="user:ana")
    with pytest.raises(StaleVersion):
        transition(request=request, to=RequestStatus.PLANNING, reason="admitted", actor="system:test")
    assert Request.objects.get(pk=request.pk).status == "aborted"


def test_a_move_without_a_reason_is_refused_by_the_database() -> None:
    request = make_request(status=RequestStatus.QUEUED)
    with pytest.raises(IntegrityError), transaction.atomic():
        transition(request=request, to=RequestStatus.HELD, reason="", actor="system:test")
    assert Request.objects.get(pk=request.pk).status == "queued"


@pytest.mark.parametrize("tamper", ["update", "delete"])
def test_history_cannot_be_edited(tamper: str) -> None:
    request = make_request(status=RequestStatus.QUEUED)
    transition(request=request, to=RequestStatus.HELD, reason="look at this", actor="system:test")
    rows = StatusTransition.objects.filter(request=request)
    with pytest.raises((InternalError, IntegrityError), match="append-only"), transaction.atomic():
        rows.update(reason="nothing") if tamper == "update" else rows.delete()
    assert rows.latest("id").reason == "look at this"
