"""Metrics: the seed's names, true numbers, a bounded scrape, and counts that add up over processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families
from rest_framework.test import APIClient

from dags_app.states import DAGStatus
from outputs_app.states import BlockStatus
from requests_app.lifecycle import deadlines
from requests_app.models import Request
from requests_app.services.alerts import raise_alert
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_block, make_dag, make_group, make_request, make_round
from wms2_project import redis_state
from wms2_project.observation import counters, heartbeat

pytestmark = pytest.mark.django_db
Samples = dict[tuple[str, tuple[str, ...]], float]


@pytest.fixture(autouse=True)
def _from_nothing(own_health: None) -> Iterator[None]:
    keys = [counters.KEY, "wms2:ended:workflows", "wms2:ended:outputs"]
    redis_state.ask(lambda client: client.delete(*keys), otherwise=None)
    yield
    redis_state.ask(lambda client: client.delete(*keys), otherwise=None)


def scrape(viewer: APIClient) -> Samples:
    answer = viewer.get("/api/v1/metrics", headers={"Accept": "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"})
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


def test_the_seeds_metrics_have_the_seeds_names(viewer: APIClient) -> None:
    request = make_request(status=RequestStatus.ACTIVE)
    make_request(status=RequestStatus.QUEUED)
    make_request(status=RequestStatus.COMPLETED)
    round_ = make_round(request.workflow)
    dag = make_dag(round_, total_nodes=8, nodes_done=2)
    make_block(make_group(round_), status=BlockStatus.ANNOUNCED)
    raise_alert(request=request, kind="slow_dag", message="it takes long")
    raise_alert(request=request, kind="slow_dag", message="it takes longer")
    Request.objects.filter(pk=request.pk).update(status_since=ago(days=40))
    request.refresh_from_db()

    with CaptureQueriesContext(connection) as asked:
        result = scrape(viewer)

    over_alerts = [one["sql"] for one in asked if "requests_app_alert" in one["sql"]]
    assert [sql for sql in over_alerts if '"closed_at" IS NULL' not in sql] == []
    assert result["wms2_workflows", ("active",)] == 1
    assert result["wms2_workflows", ("completed",)] == 1
    assert result["wms2_workflows", ("failed",)] == 0
    assert result["wms2_admission_queue_depth", ()] == 1
    assert result["wms2_dag_progress", (str(dag.pk),)] == 0.25
    assert result["wms2_outputs", ("announced",)] == 1
    assert result["wms2_alerts_total", ("slow_dag",)] == 2
    assert result["wms2_alerts_open", ("slow_dag",)] == 1


def test_a_passed_deadline_is_counted(viewer: APIClient) -> None:
    request = make_request(status=RequestStatus.QUEUED, status_since=ago(days=8))
    deadlines.overdue(request, ago())
    assert scrape(viewer)["wms2_request_stuck_total", ("queued",)] == 1


def test_queues_and_workers_are_exported(viewer: APIClient) -> None:
    heartbeat.beat("w@test", ("planning",))
    result = scrape(viewer)
    heartbeat.silence("w@test", ("planning",))
    assert result["wms2_workers", ("planning",)] == 1
    assert ("wms2_queue_length", ("condor",)) in result
    assert result["wms2_part_up", ("database",)] == 1


def test_every_http_call_is_counted_by_its_route_not_its_path(viewer: APIClient) -> None:
    for name in ("a", "b"):
        viewer.get(f"/api/v1/requests/{name}")
    route = "api/v1/requests/<request_name:name>"
    result = scrape(viewer)
    assert result["wms2_http_request_seconds_count", ("GET", route, "4xx")] == 2
    assert result["wms2_http_request_seconds_bucket", ("+Inf", "GET", route, "4xx")] == 2
    assert result["wms2_http_request_seconds_sum", ("GET", route, "4xx")] > 0


def test_counts_of_other_processes_add_up(viewer: APIClient) -> None:
    code = (
        "import django; django.setup()\n"
        "from wms2_project.observation.counters import TASKS, count\n"
        "[count(TASKS, 'sweep', 'done', seconds=0.02) for _ in range(50)]\n"
    )
    root = Path(__file__).parents[3]
    processes = [subprocess.Popen([sys.executable, "-c", code], cwd=root) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    result = scrape(viewer)
    assert result["wms2_task_seconds_count", ("done", "sweep")] == 100
    assert result["wms2_task_seconds_sum", ("done", "sweep")] == pytest.approx(2.0)
    assert result["wms2_task_seconds_bucket", ("0.05", "done", "sweep")] == 100


def test_a_scrape_costs_the_same_however_many_rows_there_are(viewer: APIClient) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            scrape(viewer)
        return len(seen)

    scrape(viewer)
    few = queries()
    for _ in range(5):
        make_dag(make_round(make_request(status=RequestStatus.ACTIVE).workflow), status=DAGStatus.RUNNING)
    assert queries() == few
    assert few < 40


def test_without_redis_the_scrape_has_the_metrics_of_postgresql(viewer: APIClient, settings: Any) -> None:
    make_request(status=RequestStatus.COMPLETED)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    result = scrape(viewer)
    assert result["wms2_workflows", ("completed",)] == 1
    assert result["wms2_part_up", ("redis",)] == 0
