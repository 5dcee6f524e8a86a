"""The page of runners: those of one workflow, or all that live now."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from requests_app.models import Request
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_request
from tests.integration.pull.factories import CERN, FNAL, make_pull_workflow, make_runner, open_round

pytestmark = pytest.mark.django_db


def test_runners_are_listed_with_site_state_files_heartbeat_and_exit_code(console: Client) -> None:
    workflow = make_pull_workflow()
    make_request(workflow=workflow)
    make_runner(workflow, site=FNAL, files_lent=7, files_processed=0, heartbeat_at=ago(hours=5))
    make_runner(
        workflow, site=CERN, state="ended", outcome="failed", exit_code=8022, message="checksum differs",
        ended_at=timezone.now(),
    )  # fmt: skip
    url = reverse("admin:dags_app_runner_changelist")
    page = console.get(f"{url}?workflow__id__exact={workflow.pk}").content.decode()
    for shown in (FNAL, "0 of 7", "5\N{NO-BREAK SPACE}h ago", CERN, "failed", "8022", "checksum differs"):
        assert shown in page, shown
    live = console.get(url).content.decode()
    assert (FNAL in live, CERN in live) == (True, False)


def test_the_page_of_a_pull_request_leads_to_its_runners(console: Client) -> None:
    request = make_request(workflow=make_pull_workflow())
    page = console.get(reverse("admin:requests_app_request_change", args=[request.pk]), follow=True)
    own = f"workflow__id__exact={request.workflow_id}"
    html = page.content.decode().replace("&amp;", "&")
    assert f"{reverse('admin:dags_app_runner_changelist')}?{own}" in html
    assert f"runner__{own}&state__exact=void" in html


def test_progress_and_the_expected_end_are_by_files(viewer: Any) -> None:
    workflow = make_pull_workflow(places=[[CERN]] * 10)
    request = make_request(workflow=workflow, status=RequestStatus.ACTIVE)
    workflow.rounds.update(created_at=ago(minutes=30))
    done = [file.pk for file in workflow.input_files.all()[:3]]
    values = {"state": "processed", "round": open_round(workflow), "first_group": 0, "last_group": 0}
    workflow.input_files.filter(pk__in=done).update(events=0, **values)
    body = viewer.get(f"/api/v1/requests/{request.request_name}/progress").json()
    assert (body["overall_percent"], body["pace"]["groups_seen"]) == (30.0, 3)
    end = datetime.fromisoformat(body["estimated_completion"])
    assert timedelta(minutes=65) < end - timezone.now() < timedelta(minutes=75)
    workflow.input_files.exclude(pk__in=done).filter(pk__gt=max(done) + 1).update(state="excluded")
    Request.objects.filter(pk=request.pk).update(status=RequestStatus.COMPLETED)
    body = viewer.get(f"/api/v1/requests/{request.request_name}/progress").json()
    assert (body["fraction"], body["estimated_completion"]) == (0.4, None)
