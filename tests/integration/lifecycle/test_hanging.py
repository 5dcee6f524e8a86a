"""Running jobs that get nowhere are told to a person, shown in /why, and removed only where that is set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from condor.types import RunningJob
from dags_app.models import DAG
from dags_app.services import hanging
from dags_app.services.hanging import usual_runtimes
from dags_app.states import GroupStatus
from requests_app.lifecycle.stalling import report_hanging
from requests_app.models import Alert, Request
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_dag, make_group, make_request, make_round
from wms2_project import shared
from wms2_project.errors import ScheddUnreachable

pytestmark = pytest.mark.django_db
SITE = "T2_CH_CERN"


class Queue:
    """A queue of which only the running jobs matter."""

    def __init__(self) -> None:
        self.jobs: list[RunningJob] = []
        self.queries = 0
        self.silent = ""
        self.removed: list[tuple[str, list[int], str]] = []

    def at(self, name: str = "") -> Queue:
        if name and name == self.silent:
            raise ScheddUnreachable(f"{name} does not answer", cure="It is asked again")
        return self

    def running_jobs(self, batch_names: Iterable[str], *, longer_than_sec: int) -> list[RunningJob]:
        self.queries += 1
        return [job for job in self.jobs if job.batch_name in set(batch_names)]

    def remove_jobs(self, batch_name: str, cluster_ids: Collection[int], *, reason: str) -> int:
        self.removed.append((batch_name, list(cluster_ids), reason))
        return len(cluster_ids)

    def add(self, dag: DAG, *, minutes: float, cpu_sec: float) -> None:
        number = len(self.jobs) + 1
        job = RunningJob(
            dag.token, "mg_000001", f"proc_{number:06d}", number, SITE, ago(minutes=minutes), cpu_sec
        )
        self.jobs.append(job)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Queue]:
    """With looks that are always due, and no sample of an earlier test."""
    made = Queue()
    monkeypatch.setattr(hanging, "schedd", made.at)
    forget()
    yield made
    forget()


def forget(pattern: str = "wms2:hanging:*") -> None:
    def delete(client: Any) -> None:
        for key in client.keys(pattern):
            client.delete(key)

    shared.ask(delete, otherwise=None)


def look(minutes_later: float = 0) -> None:
    forget("wms2:hanging:looked")
    report_hanging(now=timezone.now() + timedelta(minutes=minutes_later))


def active(**values: Any) -> tuple[Request, DAG]:
    request = make_request(status=RequestStatus.ACTIVE)
    begun: dict[str, Any] = {"nodes_running": 2, "submitted_at": ago(hours=9)}
    return request, make_dag(make_round(request.workflow), **(begun | values))


def alerts(request: Request) -> list[str]:
    found = Alert.objects.filter(request=request, closed_at__isnull=True, kind="jobs_hanging")
    return [alert.message for alert in found]


def test_a_job_without_cpu_time_since_its_start_is_told_at_the_first_look(queue: Queue) -> None:
    request, dag = active()
    queue.add(dag, minutes=31, cpu_sec=3)
    queue.add(dag, minutes=31, cpu_sec=1500)
    look()

    assert alerts(request) == [
        f"1 job hanging in mg_000001: proc_000001 at {SITE} used no CPU time for 31 min"
    ]
    assert queue.removed == [], "a person decides, unless it is set otherwise"


def test_a_job_that_stops_in_the_middle_is_told_once_it_stood_still_for_long_enough(queue: Queue) -> None:
    request, dag = active()
    queue.add(dag, minutes=120, cpu_sec=7000)
    for minutes, told in ((0, 0), (20, 0), (31, 1)):
        look(minutes)
        assert len(alerts(request)) == told, minutes


def test_the_alert_closes_when_the_job_goes_on_or_is_gone(queue: Queue) -> None:
    request, dag = active()
    queue.add(dag, minutes=60, cpu_sec=0)
    look()
    assert alerts(request)
    queue.jobs.clear()
    report_hanging(now=timezone.now())
    assert alerts(request), "between two looks nothing is known"
    look()
    assert not alerts(request)


def test_a_job_far_slower_than_those_that_finished_is_told(queue: Queue) -> None:
    request, dag = active()
    for p95 in (300.0, 600.0):
        make_group(dag.round, status=GroupStatus.COLLECTED, jobs=8, metrics={"job_wall_p95_sec": p95})
    queue.add(dag, minutes=25, cpu_sec=1400)
    look()
    assert not alerts(request)
    queue.jobs.clear()
    queue.add(dag, minutes=31, cpu_sec=1800)
    look()
    (told,) = alerts(request)
    assert "has run for 31 min, where 95% of the finished jobs took at most 10 min" in told


def test_run_times_count_once_enough_jobs_were_measured(db: None) -> None:
    _, dag = active()
    make_group(dag.round, status=GroupStatus.COLLECTED, jobs=9, metrics={"job_wall_p95_sec": 60.0})
    make_group(dag.round, status=GroupStatus.PLANNED, jobs=50)
    assert usual_runtimes([dag.round_id]) == {}
    make_group(dag.round, status=GroupStatus.COLLECTED, jobs=1, metrics={"wall_time_sec": 5.0})
    assert usual_runtimes([dag.round_id]) == {dag.round_id: 60.0}


def test_where_it_is_set_they_are_removed_with_a_reason_that_post_knows(queue: Queue, settings: Any) -> None:
    settings.HANG_RETRY = True
    request, dag = active()
    for _ in range(2):
        queue.add(dag, minutes=60, cpu_sec=0)
    look()
    assert queue.removed == [(dag.token, [1, 2], "hanging job: used no CPU time for 60 min")]
    assert alerts(request)[0].endswith("; removed to be tried again")


def test_a_look_removes_a_bounded_number(
    queue: Queue, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HANG_RETRY = True
    monkeypatch.setattr(hanging, "MAX_REMOVED", 3)
    for _ in range(2):
        _, dag = active()
        for _ in range(2):
            queue.add(dag, minutes=60, cpu_sec=0)
    look()
    assert sorted(len(ids) for _, ids, _ in queue.removed) == [1, 2]


def test_one_query_per_schedd_and_none_without_a_suspect(queue: Queue) -> None:
    active(submitted_at=ago(minutes=5))
    active(nodes_running=0)
    look()
    assert queue.queries == 0
    for name in ("one@pool", "one@pool", "other@pool"):
        active(schedd_name=name)
    look()
    assert queue.queries == 2
    report_hanging(now=timezone.now())
    assert queue.queries == 2, "the next look is not due"


def test_a_silent_schedd_hides_nothing_and_closes_nothing(queue: Queue) -> None:
    deaf, fine = active(schedd_name="deaf@pool"), active(schedd_name="fine@pool")
    queue.add(deaf[1], minutes=60, cpu_sec=0)
    look()
    queue.jobs.clear()
    queue.add(fine[1], minutes=60, cpu_sec=0)
    queue.silent = "deaf@pool"
    look()
    assert (len(alerts(deaf[0])), len(alerts(fine[0]))) == (1, 1)


@pytest.mark.parametrize("retry", [False, True])
def test_why_names_hanging_jobs_and_what_becomes_of_them(
    queue: Queue, viewer: APIClient, settings: Any, retry: bool
) -> None:
    settings.HANG_RETRY = retry
    request, dag = active()
    queue.add(dag, minutes=60, cpu_sec=0)
    look()
    body = viewer.get(f"/api/v1/requests/{request.request_name}/why").json()
    (gate,) = [one for one in body["gates"] if one["name"] == "hanging jobs"]
    assert (gate["verdict"], gate["detail"]) == ("block", alerts(request)[0])
    assert ("removed" in gate["remedy"]) is retry
