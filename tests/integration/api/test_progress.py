"""Progress is counted in events, from aggregates, in one query; the end is estimated with an interval."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from dags_app.models import Workflow
from dags_app.states import DAGStatus, FileState, GroupStatus, RoundStatus
from requests_app.models import Request
from requests_app.selectors.progress import detail_of, progress_of_many
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_dag, make_file, make_group, make_request, make_round

pytestmark = pytest.mark.django_db


def read(client: APIClient, row: Request) -> dict[str, Any]:
    answer = client.get(f"/api/v1/requests/{row.request_name}/progress")
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def generating(*, wanted: int, efficiency: float = 1.0, hours: float = 2) -> tuple[Request, Any]:
    row = make_request(status=RequestStatus.ACTIVE)
    Workflow.objects.filter(pk=row.workflow_id).update(
        input_dataset=None, total_events=wanted, filter_efficiency=efficiency
    )
    round_ = make_round(row.workflow, created_at=ago(hours=hours), jobs=12)
    type(round_).objects.filter(pk=round_.pk).update(created_at=ago(hours=hours), input_events=300)
    return row, round_


def test_progress_is_by_events_and_shows_rounds_groups_and_nodes(viewer: APIClient) -> None:
    row, round_ = generating(wanted=300)
    make_group(round_, status=GroupStatus.COLLECTED, events_read=100, finished_at=ago(minutes=90))
    make_group(round_, status=GroupStatus.FAILED, nodes_done=2, nodes_failed=3, site="T2_CH_CERN")
    make_group(round_, nodes_done=1, nodes_failed=1)
    make_dag(round_, nodes_running=2, nodes_idle=1, nodes_held=1)

    body = read(viewer, row)

    assert (body["overall_percent"], body["events_done"], body["events_total"]) == (41.7, 100, 300)
    assert body["nodes"] == {
        "total": 21, "completed": 10, "running": 2, "idle": 1, "held": 1, "waiting": 1, "failed": 4,
        "skipped": 2,
    }  # fmt: skip
    (round_,) = body["rounds"]
    assert (round_["groups"], round_["collected"], round_["failed"], round_["planned"]) == (3, 1, 1, 1)
    assert round_["fraction"] == 0.4167
    shown = [(one["status"], one["nodes_done"], one["nodes_failed"]) for one in body["groups"]]
    assert shown == [("collected", 7, 0), ("failed", 2, 3), ("planned", 1, 1)]
    assert body["groups"][1]["site"] == "T2_CH_CERN"
    (task,) = body["current_tasks"]
    assert (task["node_id"], task["progress_percent"]) == ("round 0", 41.7)
    assert "2 jobs running" in task["progress_message"]


def test_finished_jobs_of_a_running_group_move_the_bar(viewer: APIClient) -> None:
    row, round_ = generating(wanted=300)
    make_group(round_, status=GroupStatus.COLLECTED, input_events=100, events_read=100)
    make_group(round_, status=GroupStatus.DONE, input_events=100)
    make_group(round_, jobs=4, input_events=100, nodes_done=3)  # the landing and two of four jobs
    make_group(round_, jobs=4, input_events=100, nodes_done=0)
    body = read(viewer, row)
    assert (body["events_done"], body["events_running"], body["events_total"]) == (100, 150, 400)
    assert (body["fraction"], body["rounds"][0]["fraction"]) == (0.625, 0.8333)


def test_filtered_events_count_as_work(viewer: APIClient) -> None:
    row, round_ = generating(wanted=100, efficiency=0.25)
    make_group(round_, status=GroupStatus.COLLECTED, events_read=100, events_written=25)
    body = read(viewer, row)
    assert (body["events_total"], body["fraction"], body["events_written"]) == (400, 0.25, 25)


def test_work_of_a_closed_round_is_counted_in_the_round_that_does_it(viewer: APIClient) -> None:
    row, closed = generating(wanted=200)
    for status, read_, written in ((GroupStatus.COLLECTED, 100, 100), (GroupStatus.FAILED, 0, 0)):
        make_group(closed, status=status, input_events=100, events_read=read_, events_written=written)
    type(closed).objects.filter(pk=closed.pk).update(status=RoundStatus.RESOLVED)
    make_group(make_round(row.workflow, number=1), input_events=100)
    body = read(viewer, row)
    assert (body["events_done"], body["events_total"], body["fraction"]) == (100, 200, 0.5)
    assert progress_of_many([row])[row.pk].groups_total == 2


def test_jobs_that_a_repair_dropped_are_skipped(viewer: APIClient) -> None:
    row, round_ = generating(wanted=300)  # 12 jobs were planned
    make_group(round_, status=GroupStatus.COLLECTED, jobs=4)
    nodes = read(viewer, row)["nodes"]
    assert (nodes["total"], nodes["completed"], nodes["skipped"], nodes["waiting"]) == (15, 7, 8, 0)


@pytest.mark.parametrize("status", [RequestStatus.ACTIVE, RequestStatus.COMPLETED])
def test_excluded_events_stay_in_the_total_and_are_no_work_left(
    viewer: APIClient, status: RequestStatus
) -> None:
    row = make_request(status=status)
    held = {"round": make_round(row.workflow, status=RoundStatus.RESOLVED), "first_group": 0, "last_group": 0}
    make_file(row.workflow, events=60, state=FileState.PROCESSED, **held)
    make_file(row.workflow, events=40, state=FileState.EXCLUDED, excluded_reason="corrupt")
    make_file(row.workflow, events=500, state=FileState.EXCLUDED, excluded_reason="beyond", wanted=[])
    body = read(viewer, row)
    assert (body["events_total"], body["events_done"], body["events_excluded"]) == (100, 60, 40)
    assert (body["fraction"], body["pace"]["estimated_completion"]) == (0.6, None)


def test_the_part_read_of_an_excluded_file_is_done(viewer: APIClient) -> None:
    row = make_request(status=RequestStatus.ACTIVE)
    closed = make_round(row.workflow, status=RoundStatus.RESOLVED)
    make_group(closed, status=GroupStatus.COLLECTED, events_read=40)
    lumis = {"lumis": [[1, 1, 10]], "done": [[1, 1, 4]]}
    make_file(row.workflow, events=100, state=FileState.EXCLUDED, excluded_reason="corrupt", **lumis)
    body = read(viewer, row)
    assert (body["events_total"], body["events_done"], body["events_excluded"]) == (100, 40, 60)


def test_closed_rounds_count_by_files_and_the_open_one_by_groups(viewer: APIClient) -> None:
    row = make_request(status=RequestStatus.ACTIVE)
    closed = make_round(row.workflow, status=RoundStatus.RESOLVED)
    opened = make_round(row.workflow, number=1)
    for round_ in (closed, opened):
        held = {"round": round_, "first_group": 0, "last_group": 0}
        make_file(row.workflow, events=50, state=FileState.PROCESSED, **held)
    make_group(opened, status=GroupStatus.COLLECTED, input_events=50)
    with CaptureQueriesContext(connection) as queries:
        body = read(viewer, row)
    assert (body["events_done"], body["events_total"]) == (100, 100)
    # a request may have a million of them, a page fifty requests
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN ANALYZE {queries.captured_queries[-1]['sql']}")
        reading = [line for (line,) in cursor.fetchall() if "dags_app_inputfile" in line]
    assert reading
    assert all("never executed" in line for line in reading), reading


def test_the_part_read_of_a_shared_file_counts_at_once(viewer: APIClient) -> None:
    row = make_request(status=RequestStatus.ACTIVE)
    round_ = make_round(row.workflow)
    make_file(row.workflow, events=200, state=FileState.ASSIGNED, round=round_, first_group=0, last_group=1)
    make_group(round_, status=GroupStatus.COLLECTED, events_read=100)
    make_group(round_)
    assert read(viewer, row)["fraction"] == 0.5


@pytest.mark.parametrize(("finished", "seen", "rate"), [(5, 1, 100 / 36_000), (0.5, 3, 300 / 3600)])
def test_the_pace_is_that_of_the_last_hour_if_enough_finished_in_it(
    viewer: APIClient, finished: float, seen: int, rate: float
) -> None:
    row, round_ = generating(wanted=1000, hours=10)
    for _ in range(seen):
        make_group(round_, status=GroupStatus.COLLECTED, events_read=100, finished_at=ago(hours=finished))
    pace = read(viewer, row)["pace"]
    assert pace["groups_seen"] == seen
    assert pace["events_per_sec"] == pytest.approx(rate, rel=0.01)
    assert pace["earliest"] < pace["estimated_completion"] < pace["latest"]


def test_the_band_narrows_with_the_evidence() -> None:
    widths = []
    for groups in (4, 16):
        row, round_ = generating(wanted=20 * groups, hours=10)
        for _ in range(groups):
            make_group(round_, status=GroupStatus.COLLECTED, events_read=10, finished_at=ago(hours=5))
        pace = detail_of(row).pace
        assert pace.latest is not None
        assert pace.earliest is not None
        widths.append(pace.latest - pace.earliest)
    assert widths[1] < widths[0] / 2


@pytest.mark.parametrize("status", [RequestStatus.HELD, RequestStatus.ABORTED, RequestStatus.COMPLETED])
def test_a_request_without_progress_has_no_estimated_end(viewer: APIClient, status: RequestStatus) -> None:
    row, round_ = generating(wanted=1000)
    make_group(round_, status=GroupStatus.COLLECTED, events_read=500, finished_at=ago(hours=1))
    Request.objects.update(status=status)
    assert read(viewer, row)["pace"]["estimated_completion"] is None


@pytest.mark.parametrize(
    ("wanted", "known"),
    [(10**3, (True, True, True)), (10**7, (False, True, False)), (10**15, (False,) * 3)],
)
def test_an_end_beyond_ten_years_is_not_reported(
    viewer: APIClient, wanted: int, known: tuple[bool, ...]
) -> None:
    """A few events in the last hour with very many left made every list of requests fail."""
    row, round_ = generating(wanted=wanted, hours=24)
    make_group(round_, status=GroupStatus.COLLECTED, events_read=wanted // 2, finished_at=ago(hours=20))
    for _ in range(3):
        make_group(round_, status=GroupStatus.COLLECTED, events_read=16, finished_at=ago(minutes=5))

    (listed,) = viewer.get("/api/v1/requests").json()["results"]
    pace = detail_of(row).pace

    ends = (pace.estimated_completion, pace.earliest, pace.latest)
    assert tuple(end is not None for end in ends) == known
    assert (listed["progress"]["estimated_completion"] is not None) == known[0]


def test_one_query_serves_one_and_many_requests() -> None:
    rows = []
    for _ in range(5):
        row, round_ = generating(wanted=1000)
        make_group(round_, status=GroupStatus.COLLECTED)
        make_dag(round_, status=DAGStatus.COMPLETED, completed_at=ago(hours=1))
        type(round_).objects.filter(pk=round_.pk).update(status=RoundStatus.RESOLVED)
        make_round(row.workflow)
        rows.append(row)
    with CaptureQueriesContext(connection) as queries:
        assert len(progress_of_many(rows)) == 5
        assert len(detail_of(rows[0]).rounds) == 2
    assert len(queries) == 2
