"""The home page: items for operators and the state of all requests, at a cost independent of the rows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from console.home.attention import alerts, decisions
from console.home.fleet import Line, status_lines
from console.home.flow import charts
from console.home.places import signs, site_loads
from console.home.queue import queue
from dags_app.models import Schedd
from requests_app.admission import limits
from requests_app.models import ProgressSample, Request
from requests_app.services.alerts import raise_alert
from requests_app.states import RequestStatus
from requests_app.transitions import transition
from sites_app.models import Site, SiteBan
from tests.integration.factories import ago, make_dag, make_group, make_request, make_round, make_site
from wms2_project.access.roles import Role

pytestmark = pytest.mark.django_db
S = RequestStatus


def home(console: Client) -> str:
    return console.get(reverse("admin:index")).content.decode()


def held(error: str) -> Request:
    return make_request(status=S.HELD, last_error=error)


def test_held_requests_are_grouped_by_cause() -> None:
    for number in range(3):
        held(f"{number} % of the jobs failed: /store/file{number}.root is missing")
    held("stopped by an operator: maintenance")
    first, second = decisions(Role.OPERATOR)
    assert (first.title, second.title) == ("3 requests held", "1 request held")
    assert [link.text for link in first.examples][-1] == "1 more"
    assert "status__exact=held" in first.action.url


def test_a_cause_suggests_the_operation_with_its_values() -> None:
    row = held("more than 20 % of the jobs failed")
    dag = make_dag(make_round(row.workflow), status="failed")
    dag.failures.create(
        workflow=row.workflow, fingerprint="f", message="m", exit_code=50660, category="permanent", jobs=9,
        jobs_at_site=9, failed_elsewhere=0, jobs_elsewhere=0, memory_mb=2000, resource="memory",
    )  # fmt: skip
    (matter,) = decisions(Role.OPERATOR)
    assert matter.action.text == "Release with more memory"
    assert matter.action.url.endswith("/release/?memory_mb=3100")
    (seen,) = decisions(Role.VIEWER)
    assert seen.action.text == "Open"


def test_alerts_are_grouped_by_kind() -> None:
    for _ in range(2):
        raise_alert(request=make_request(), kind="slow_dag", message="it takes long")
    (matter,) = alerts()
    assert (matter.title, matter.detail, len(matter.examples)) == ("2 × slow dag", "it takes long", 2)


def test_paused_admission_and_silent_schedds_need_an_operator() -> None:
    config = limits()
    config.paused, config.pause_reason = True, "the storage is full"
    config.save()
    Schedd.objects.create(name="mute@pool", silent_since=ago(hours=2))
    titles = {matter.title: matter.detail for matter in decisions(Role.OPERATOR)}
    assert titles["Admission is paused"] == "the storage is full"
    assert "mute@pool has not answered" in titles


def test_an_empty_home_page_shows_that_no_action_is_needed(console: Client) -> None:
    assert "No request is held and no alert is open" in home(console)


def line_of(status: RequestStatus) -> Line:
    return next(line for line in status_lines(now=timezone.now()) if line.status == status)


def test_the_fleet_is_counted_with_its_last_day() -> None:
    make_request(status=S.QUEUED)
    done = make_request(status=S.ACTIVE)
    transition(request=done, to=S.COMPLETED, reason="all there", actor="system:lifecycle")
    assert (line_of(S.QUEUED).count, line_of(S.QUEUED).points[-1]) == (1, 1)
    assert (line_of(S.COMPLETED).count, line_of(S.COMPLETED).points[-1]) == (1, 1)


def test_throughput_is_counted_by_hour() -> None:
    now = timezone.now()
    round_ = make_round(make_request().workflow)
    make_group(round_, status="collected", events_read=500, finished_at=now - timedelta(minutes=1))
    make_group(round_, status="collected", events_read=900, finished_at=now - timedelta(days=2))
    found = charts(now=now)
    assert (found["sums"]["events"], found["sums"]["groups"]) == (500, 1)
    assert sum(found["events"]["series"][0]["data"]) == 500


def test_sites_are_shown_by_load_and_state() -> None:
    make_site("T2_DE_DESY", status="draining")
    make_site("T2_CH_CERN")
    banned = make_site("T1_US_FNAL")
    Site.objects.filter(name="T2_CH_CERN").update(running_slots=40, total_slots=100, pending_slots=7)
    SiteBan.objects.create(site=banned, reason="8028 everywhere", created_by="s", expires_at=ago(days=-1))
    (load,) = site_loads()
    assert (load.name, load.running, load.pending) == ("T2_CH_CERN", 40, 7)
    shown = {sign.name: (sign.text, sign.tone) for sign in signs(now=timezone.now())}
    assert shown["T2_DE_DESY"] == ("draining", "warning")
    assert shown["T1_US_FNAL"] == ("banned", "danger")
    assert "T2_CH_CERN" not in shown


def sample(row: Request, at: timedelta, end: timedelta) -> None:
    now = timezone.now()
    ProgressSample.objects.create(
        request=row, at=now - at, status=S.ACTIVE, estimated_completion=now + end,
        earliest=now + end - timedelta(hours=1), latest=now + end + timedelta(hours=1),
    )  # fmt: skip


def test_the_queue_has_expected_starts_from_the_last_samples() -> None:
    config = limits()
    config.max_active_dags = 1
    config.save()
    running = make_request(status=S.ACTIVE)
    sample(running, timedelta(hours=20), timedelta(hours=2))
    sample(running, timedelta(minutes=1), timedelta(hours=5))
    first, second = make_request(status=S.QUEUED, rank=2), make_request(status=S.QUEUED, rank=1)
    found = queue(now=timezone.now())
    assert [one.name for one in found.next] == [first.request_name, second.request_name]
    assert found.next[0].turn is not None
    assert found.next[0].turn.likely > timezone.now() + timedelta(hours=4)
    assert found.next[1].turn is None
    (late,) = found.late
    assert (late.name, round(late.delay_hours)) == (running.request_name, 3)


def test_more_rows_cost_no_more_queries(console: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert console.get(reverse("admin:index")).status_code == 200
        return len(captured)

    def fill(times: int) -> None:
        for number in range(times):
            held(f"cause {'x' * number}")
            raise_alert(request=make_request(status=S.QUEUED), kind=f"kind{number}", message="m")
            make_request(status=S.ACTIVE)

    fill(2)
    queries()
    few = queries()
    fill(8)
    assert queries() == few
