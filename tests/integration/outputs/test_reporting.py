"""Status reports to ReqMgr2: only if enabled, along its own states, until it accepts them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from dags_app.adapters import reqmgr2
from dags_app.models import Workflow
from outputs_app.models import ReqMgr2Report
from requests_app.models import Request
from requests_app.services.reqmgr2_reports import report_statuses
from requests_app.states import RequestStatus
from tests.integration.factories import make_site
from tests.integration.outputs.conftest import Faults

pytestmark = pytest.mark.django_db
S = RequestStatus


@pytest.fixture
def imported(workflow: Workflow, lab: Any, settings: Any) -> Request:
    """Return a request that is also in ReqMgr2, newly assigned to WMS2."""
    settings.REQMGR2_WRITE_BACK = True
    request = Request.objects.get(workflow=workflow)
    request.source = "reqmgr2"
    request.request_name = f"{request.request_name}_{timezone.now():%H%M%S%f}"
    request.save()
    lab("POST", "requests", {"RequestName": request.request_name, "RequestStatus": "assigned"})
    return request


def become(request: Request, status: RequestStatus, *, now: datetime | None = None) -> None:
    Request.objects.filter(pk=request.pk).update(status=status, status_since=timezone.now())
    report_statuses(now=now or timezone.now())


def status_there(lab: Any, request: Request) -> str:
    return str(lab("GET", "state")["requests"][request.request_name])


def test_every_status_is_reported(imported: Request, lab: Any) -> None:
    seen = []
    for status in (S.SUBMITTED, S.QUEUED, S.ACTIVE, S.HELD, S.QUEUED, S.ACTIVE, S.COMPLETED):
        become(imported, status)
        seen.append(status_there(lab, imported))
    assert seen == ["assigned", "acquired", *["running-open"] * 4, "announced"]


def test_an_abort_is_reported(imported: Request, lab: Any) -> None:
    become(imported, S.ACTIVE)
    become(imported, S.ABORTED)
    assert status_there(lab, imported) == "aborted"


@pytest.mark.parametrize("whitelist", [[], ["T2_DE_DESY"]])
def test_an_unassigned_request_is_assigned_to_the_team_with_its_sites(
    imported: Request, lab: Any, whitelist: list[str]
) -> None:
    make_site("T1_US_FNAL")
    Workflow.objects.filter(pk=imported.workflow_id).update(site_whitelist=whitelist)
    unassigned = f"{imported.request_name}_new"
    Request.objects.filter(pk=imported.pk).update(request_name=unassigned)
    lab("POST", "requests", {"RequestName": unassigned, "RequestStatus": "assignment-approved"})
    become(imported, S.ACTIVE)
    seen = reqmgr2().request(unassigned)
    assert (seen["RequestStatus"], seen["Team"]) == ("running-open", "wms2")
    assert seen["SiteWhitelist"] == (whitelist or ["T1_US_FNAL"])


def test_nothing_is_reported_unless_enabled_or_for_other_requests(
    imported: Request, lab: Any, settings: Any
) -> None:
    settings.REQMGR2_WRITE_BACK = False
    become(imported, S.ACTIVE)
    settings.REQMGR2_WRITE_BACK = True
    Request.objects.filter(pk=imported.pk).update(source="document")
    become(imported, S.ACTIVE)
    assert status_there(lab, imported) == "assigned"


def test_a_report_that_failed_is_repeated_and_one_that_succeeded_is_not(
    imported: Request, lab: Any, faults: Faults
) -> None:
    faults({"service": "reqmgr2", "method": "PUT", "kind": "status", "status": 503, "times": None})
    become(imported, S.ACTIVE)
    report = ReqMgr2Report.objects.get(workflow=imported.workflow)
    assert (report.reported, report.attempt, "503" in report.last_error) == ("", 1, True)
    faults({"service": "reqmgr2", "method": "PUT", "kind": "success_then_500", "times": None})
    report_statuses(now=report.next_check_at + timedelta(seconds=1))
    report.refresh_from_db()
    assert (report.reported, report.attempt, report.last_error) == ("active", 0, "")
    assert status_there(lab, imported) == "running-open"
    faults({"service": "reqmgr2", "kind": "status", "status": 503, "times": 1})
    report_statuses(now=timezone.now())
    assert [left["times"] for left in lab("GET", "faults")] == [1], "nothing was asked again"
