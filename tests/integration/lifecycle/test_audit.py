"""Changes without a status change are recorded with actor and reason."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from requests_app import admission
from requests_app.services.editing import change_request
from requests_app.states import RequestStatus
from sites_app.services.sites import drain_site
from tests.integration.factories import make_request, make_site
from wms2_project.errors import Conflict, InvalidInput
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db


def test_a_change_of_priority_records_actor_and_reason() -> None:
    request = make_request(status=RequestStatus.QUEUED)
    change_request(request=request, actor="user:olga", reason="a conference", changes={"priority": 7})
    event = AuditEvent.objects.get()
    assert (event.actor, event.target, event.reason) == ("user:olga", request.request_name, "a conference")
    assert event.detail == {"changes": {"priority": 7}, "previous": {"priority": 100_000}}


def test_limits_and_drains_are_kept_too() -> None:
    admission.change_limits(changes={"max_active_dags": 5}, actor="user:olga", reason="small pool")
    drain_site(site=make_site(), until=None, reason="power cut", actor="user:sam")
    assert list(AuditEvent.objects.order_by("id").values_list("action", "target")) == [
        ("change", "admission limits"),
        ("draining", "T2_CH_CERN"),
    ]


def test_without_a_reason_nothing_happens() -> None:
    site = make_site()
    with pytest.raises(InvalidInput, match="reason"):
        drain_site(site=site, until=None, reason="  ", actor="user:sam")
    site.refresh_from_db()
    assert site.status == "enabled"


def test_an_ended_request_cannot_be_changed() -> None:
    request = make_request(status=RequestStatus.COMPLETED)
    with pytest.raises(Conflict, match="Ended requests cannot be changed"):
        change_request(request=request, actor="user:olga", reason="too late", changes={"priority": 7})


def test_the_audit_cannot_be_edited() -> None:
    admission.change_limits(changes={"max_active_dags": 5}, actor="user:olga", reason="small pool")
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        AuditEvent.objects.update(actor="user:forged")
