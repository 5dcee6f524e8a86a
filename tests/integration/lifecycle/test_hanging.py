"""Hanging jobs raise an alert, are shown in /why, and are removed only if enabled."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from condor.fake import FakePool
from dags_app.models import DAG
from dags_app.services import hanging
from dags_app.services.hanging import MAX_REMOVED, usual_runtimes
from dags_app.states import GroupStatus
from requests_app.lifecycle.stalling import report_hanging
from requests_app.models import Alert, Request
from requests_app.services.alerts import close_others
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_dag, make_group, make_request, make_round, queue_dag
from wms2_project import redis_state

pytestmark = pytest.mark.django_db
SITE = "T2_CH_CERN"
KEYS = "wms2:test-of-hanging:"  # the monitor of the stack looks as well, with the same Redis


@pytest.fixture
def queue(fake_pool: FakePool, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakePool]:
    """Make checks always due, remove samples of earlier tests, and allow Redis to answer slowly."""
    settings.SCHEDDS = ["one@pool"]
    monkeypatch.setattr(hanging, "_TURN", f"{KEYS}looked")
    monkeypatch.setattr(hanging, "_SAMPLES", f"{KEYS}samples:")
    monkeypatch.setattr(redis_state, "TIMEOUT_SEC", 60.0)
    monkeypatch.setattr(redis_state, "_paused_until", {})
    redis_state._client.cache_clear()
    forget()
    yield fake_pool
    forget()
    redis_state._client.cache_clear()


def start(pool: FakePool, dag: DAG, *, minutes: float, cpu_sec: float) -> int:
    """Start the DAG's next processing job that long ago; return its cluster id."""
    schedd = queue_dag(pool[dag.schedd_name], dag)
    node = f"proc_{len(schedd.jobs(dag.token)):06d}"
    since = ago(minutes=minutes).timestamp()
    return schedd.start_job(dag.token, "mg_000001", node, site=SITE, since=since, RemoteUserCpu=cpu_sec)


def removed(pool: FakePool) -> list[tuple[str, list[int], str]]:
    """Return the jobs that were removed, by DAG, with the reason."""
    return [
        (call["batch_name"], call["cluster_ids"], call["reason"])
        for schedd in pool.values()
        for call in schedd.called("remove_jobs")
    ]


def clear(pool: FakePool) -> None:
    for schedd in pool.values():
        schedd.clear_jobs()


def queries(pool: FakePool) -> int:
    return sum(len(schedd.called("running_jobs")) for schedd in pool.values())


def forget(pattern: str = f"{KEYS}*") -> None:
    def delete(client: Any) -> None:
        for key in client.keys(pattern):
            client.delete(key)

    redis_state.ask(delete, otherwise=None)


def watch_hanging(*, now: datetime) -> None:
    close_others(report_hanging(now=now))


def look(minutes_later: float = 0) -> None:
    forget(f"{KEYS}looked")
    watch_hanging(now=timezone.now() + timedelta(minutes=minutes_later))


def active(**values: Any) -> tuple[Request, DAG]:
    request = make_request(status=RequestStatus.ACTIVE)
    begun: dict[str, Any] = {"nodes_running": 2, "submitted_at": ago(hours=9)}
    return request, make_dag(make_round(request.workflow), **(begun | values))


def alerts(request: Request) -> list[str]:
    found = Alert.objects.filter(request=request, closed_at__isnull=True, kind="jobs_hanging")
    return [alert.message for alert in found]


def test_a_job_without_cpu_time_since_its_start_is_reported_at_the_first_check(queue: FakePool) -> None:
    request, dag = active()
    start(queue, dag, minutes=31, cpu_sec=3)
    start(queue, dag, minutes=31, cpu_sec=1500)
    look()

    assert alerts(request) == [
        f"1 job hanging in mg_000001: proc_000001 at {SITE} used no CPU time for 31 min"
    ]
    assert removed(queue) == [], "a person decides, unless it is set otherwise"


def test_a_job_that_stops_using_cpu_is_reported_after_the_limit(queue: FakePool) -> None:
    request, dag = active()
    start(queue, dag, minutes=120, cpu_sec=7000)
    for minutes, message in ((0, 0), (20, 0), (31, 1)):
        look(minutes)
        assert len(alerts(request)) == message, minutes


def test_the_alert_closes_when_the_job_runs_or_has_left_the_queue(queue: FakePool) -> None:
    request, dag = active()
    start(queue, dag, minutes=60, cpu_sec=0)
    look()
    assert alerts(request)
    clear(queue)
    watch_hanging(now=timezone.now())
    assert alerts(request), "between two looks nothing is known"
    look()
    assert not alerts(request)


def test_a_job_far_slower_than_finished_ones_is_reported(queue: FakePool) -> None:
    request, dag = active()
    for p95 in (300.0, 600.0):
        make_group(dag.round, status=GroupStatus.COLLECTED, jobs=8, metrics={"job_wall_p95_sec": p95})
    start(queue, dag, minutes=25, cpu_sec=1400)
    look()
    assert not alerts(request)
    clear(queue)
    start(queue, dag, minutes=31, cpu_sec=1800)
    look()
    (result,) = alerts(request)
    assert "has run for 31 min, where 95% of the finished jobs took at most 10 min" in result


def test_run_times_count_once_enough_jobs_were_measured(db: None) -> None:
    _, dag = active()
    make_group(dag.round, status=GroupStatus.COLLECTED, jobs=9, metrics={"job_wall_p95_sec": 60.0})
    make_group(dag.round, status=GroupStatus.PLANNED, jobs=50)
    assert usual_runtimes([dag.round_id]) == {}
    make_group(dag.round, status=GroupStatus.COLLECTED, jobs=1, metrics={"wall_time_sec": 5.0})
    assert usual_runtimes([dag.round_id]) == {dag.round_id: 60.0}


def test_with_the_setting_hanging_jobs_are_removed_with_the_reason_of_post(
    queue: FakePool, settings: Any
) -> None:
    settings.HANG_RETRY = True
    request, dag = active()
    ids = [start(queue, dag, minutes=60, cpu_sec=0) for _ in range(2)]
    look()
    assert removed(queue) == [(dag.token, ids, "hanging job: used no CPU time for 60 min")]
    assert alerts(request)[0].endswith("; removed and retried")


def test_one_check_of_hanging_jobs_removes_a_bounded_number(
    queue: FakePool, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HANG_RETRY = True
    for _ in range(2):
        _, dag = active()
        for _ in range(60):
            start(queue, dag, minutes=60, cpu_sec=0)
    look()
    assert sorted(len(ids) for _, ids, _ in removed(queue)) == [MAX_REMOVED - 60, 60]


def test_a_straggler_is_moved_once_and_the_reason_is_recorded(queue: FakePool) -> None:
    _, dag = active()
    for _ in range(2):
        make_group(dag.round, status=GroupStatus.COLLECTED, jobs=8, metrics={"job_wall_p95_sec": 600.0})
    slow = start(queue, dag, minutes=25, cpu_sec=1400)
    start(queue, dag, minutes=16, cpu_sec=900)
    look()
    ((token, ids, reason),) = removed(queue)
    assert (token, ids) == (dag.token, [slow])
    assert reason.startswith("hanging job: has run for ")
    assert reason.endswith(" where 95% of the finished jobs took at most 10 min; moved to another slot")
    (moved,) = dag.events.get(event_type="moved").detail["jobs"]
    assert (moved["group"], moved["node"], moved["site"]) == ("mg_000001", "proc_000001", SITE)
    assert moved["why"].startswith("proc_000001 has run for ")

    clear(queue)
    start(queue, dag, minutes=25, cpu_sec=1400)
    look()
    assert len(removed(queue)) == 1, "a node that was moved stays"


@pytest.mark.parametrize(("waiting", "factor"), [(1, 2.0), (0, 0.0)])
def test_no_straggler_is_moved_while_jobs_wait_or_if_it_is_disabled(
    queue: FakePool, settings: Any, waiting: int, factor: float
) -> None:
    settings.STRAGGLER_FACTOR = factor
    _, dag = active(nodes_idle=waiting)
    make_group(dag.round, status=GroupStatus.COLLECTED, jobs=10, metrics={"job_wall_p95_sec": 600.0})
    start(queue, dag, minutes=25, cpu_sec=1400)
    look()
    assert removed(queue) == []


def test_one_query_per_schedd_and_none_without_suspicious_jobs(queue: FakePool) -> None:
    active(submitted_at=ago(minutes=5))
    active(nodes_running=0)
    look()
    assert queries(queue) == 0
    for name in ("one@pool", "one@pool", "other@pool"):
        active(schedd_name=name)
    look()
    assert queries(queue) == 2
    watch_hanging(now=timezone.now())
    assert queries(queue) == 2, "the next look is not due"


def test_a_silent_schedd_hides_nothing_and_closes_nothing(queue: FakePool) -> None:
    deaf, fine = active(schedd_name="deaf@pool"), active(schedd_name="fine@pool")
    start(queue, deaf[1], minutes=60, cpu_sec=0)
    look()
    clear(queue)
    start(queue, fine[1], minutes=60, cpu_sec=0)
    queue["deaf@pool"].silence()
    look()
    assert (len(alerts(deaf[0])), len(alerts(fine[0]))) == (1, 1)


@pytest.mark.parametrize("retry", [False, True])
def test_why_names_hanging_jobs_and_their_treatment(
    queue: FakePool, viewer: APIClient, settings: Any, retry: bool
) -> None:
    settings.HANG_RETRY = retry
    request, dag = active()
    start(queue, dag, minutes=60, cpu_sec=0)
    look()
    body = viewer.get(f"/api/v1/requests/{request.request_name}/why").json()
    (gate,) = [one for one in body["gates"] if one["name"] == "hanging jobs"]
    assert (gate["verdict"], gate["detail"]) == ("block", alerts(request)[0])
    assert ("removed" in gate["remedy"]) is retry
