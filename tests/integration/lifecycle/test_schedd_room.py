"""No DAG goes to a schedd without slots for it and one of its groups: its groups could never start there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from condor.fake import FakeSchedd
from dags_app.models import Schedd
from dags_app.services import monitoring, schedds
from dags_app.states import DAGStatus
from requests_app import admission
from requests_app.lifecycle.advance import advance
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from tests.integration.factories import ago, make_dag, make_request, make_round, make_site, make_workflow
from wms2_project.errors import ScheddUnreachable, TransientError

pytestmark = pytest.mark.django_db
NAME = "a@pool"


@pytest.fixture
def port(fake_schedd: FakeSchedd, settings: Any) -> FakeSchedd:
    settings.SCHEDDS = [NAME]
    settings.ERROR_BACKOFF_BASE_SEC = 60.0
    fake_schedd.per_owner = 10
    return fake_schedd


def waiting(status: S = S.QUEUED) -> Request:
    make_site()
    workflow = make_workflow(input_dataset=None, total_events=10)
    return make_request(status=status, urgent=True, workflow=workflow)


def step(row: Request) -> Request:
    advance(row.pk)
    row.refresh_from_db()
    return row


@pytest.mark.parametrize(("running", "fits"), [(0, True), (8, True), (9, False), (10, False), (12, False)])
def test_the_only_schedd_takes_a_dag_if_one_group_can_run_beside_it(
    port: FakeSchedd, running: int, fits: bool
) -> None:
    port.other_dagmans = running
    if fits:
        assert schedds.choose_schedd() == NAME
        return
    with pytest.raises(TransientError, match="a@pool: no free scheduler slots"):
        schedds.choose_schedd()


def test_dags_on_their_way_count(port: FakeSchedd) -> None:
    port.other_dagmans = 7
    for _ in range(2):
        make_dag(make_round(make_workflow()), schedd_name=NAME, status=DAGStatus.SUBMITTED)
    with pytest.raises(TransientError):
        schedds.choose_schedd()


def test_a_request_waits_at_a_gate_while_the_schedd_is_full(port: FakeSchedd, viewer: APIClient) -> None:
    port.other_dagmans = 9
    monitoring.observe_dags(now=timezone.now())
    row = step(waiting())
    assert (row.status, row.wait_gate) == ("queued", "schedds")
    assert "a@pool runs 9 of 10 DAGMans" in row.wait_reason
    body = viewer.get(f"/api/v1/requests/{row.request_name}/why").json()
    assert body["summary"] == row.wait_reason
    port.other_dagmans = 4
    later = timezone.now() + timedelta(seconds=schedds.COUNT_SEC + 1)
    monitoring.observe_dags(now=later)
    admission.wake_by_news()
    row.refresh_from_db()
    assert row.next_check_at <= timezone.now(), "slots became free: it is due"
    assert step(row).status == "planning"


def test_a_request_about_to_be_planned_returns_to_the_queue(port: FakeSchedd) -> None:
    port.other_dagmans = 9
    monitoring.observe_dags(now=timezone.now())
    row = step(waiting(S.PLANNING))
    assert (row.status, "a@pool runs 9 of 10" in row.transitions.latest("id").reason) == ("queued", True)


def test_the_pilot_is_not_submitted_either(port: FakeSchedd) -> None:
    port.other_dagmans = 9
    monitoring.observe_dags(now=timezone.now())
    row = step(waiting(S.PILOT_RUNNING))
    assert (row.status, row.wait_gate) == ("pilot_running", "schedds")


def test_a_dag_that_was_sent_to_the_schedd_is_looked_for_there(port: FakeSchedd) -> None:
    port.other_dagmans = 10
    monitoring.observe_dags(now=timezone.now())
    row = waiting(S.PLANNING)
    make_dag(make_round(row.workflow), schedd_name=NAME, status=DAGStatus.READY, submitted_at=None)
    assert "no schedd has free DAGMan slots" not in step(row).wait_reason


def test_the_count_is_taken_once_in_a_while(port: FakeSchedd) -> None:
    for _ in range(5):
        monitoring.observe_dags(now=timezone.now())
    assert len(port.called("limits")) == 1


@pytest.mark.parametrize(
    "unknown", [{"counted_at": None}, {"counted_at": ago(hours=1)}, {"dagmans_allowed": None}]
)
def test_an_unknown_or_old_count_does_not_block(port: FakeSchedd, unknown: dict[str, Any]) -> None:
    full: dict[str, Any] = {"dagmans_allowed": 10, "dagmans_running": 10, "counted_at": timezone.now()}
    Schedd.objects.create(name=NAME, **(full | unknown))
    assert step(waiting()).status == "planning"


def test_a_silent_schedd_is_not_a_full_one(port: FakeSchedd) -> None:
    now = timezone.now()
    Schedd.objects.create(
        name=NAME, dagmans_allowed=10, dagmans_running=10, counted_at=now, silent_since=now, asked_at=now
    )
    assert schedds.full_schedds(now=now) == []
    with pytest.raises(ScheddUnreachable):
        schedds.choose_schedd()


def test_another_schedd_with_room_takes_the_dag(port: FakeSchedd, settings: Any) -> None:
    settings.SCHEDDS = [NAME, "b@pool"]
    now = timezone.now()
    for name, running in ((NAME, 10), ("b@pool", 3)):
        Schedd.objects.create(name=name, dagmans_allowed=10, dagmans_running=running, counted_at=now)
    assert schedds.full_schedds(now=now) == []
    Schedd.objects.filter(name="b@pool").update(silent_since=now)
    assert [row.name for row in schedds.full_schedds(now=now)] == [NAME]
