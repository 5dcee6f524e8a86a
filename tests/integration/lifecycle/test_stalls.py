"""Jobs that get nowhere are told to a person; those that end by themselves are not."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from condor.types import StuckJob
from dags_app.models import DAG, Schedd
from dags_app.services import stalls
from requests_app.lifecycle.stalling import report_stalls
from requests_app.models import Alert, Request
from requests_app.states import RequestStatus
from tests.integration.factories import make_dag, make_request, make_round
from wms2_project.errors import ScheddUnreachable

pytestmark = pytest.mark.django_db


class Queue:
    """A queue of which only the stuck jobs matter."""

    def __init__(self) -> None:
        self.jobs: list[StuckJob] = []
        self.asked = 0
        self.silent = ""
        self.working: set[tuple[str, str]] = set()

    def at(self, name: str = "") -> Queue:
        if name and name == self.silent:
            raise ScheddUnreachable(f"{name} does not answer", cure="It is asked again")
        return self

    def working_groups(self, batch_names: Iterable[str]) -> set[tuple[str, str]]:
        return {(batch, group) for batch, group in self.working if batch in set(batch_names)}

    def stuck_jobs(self, batch_names: Iterable[str], *, idle_sec: int) -> list[StuckJob]:
        self.asked += 1
        return [job for job in self.jobs if job.batch_name in set(batch_names)]

    def add(self, dag: DAG, *, code: int, seconds: float, reason: str = "via condor_hold") -> None:
        since = timezone.now() - timedelta(seconds=seconds)
        self.jobs.append(StuckJob(dag.token, "mg_000001", "proc_000003", code, reason, since))


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    made = Queue()
    monkeypatch.setattr(stalls, "schedd", made.at)
    return made


def active(nodes_held: int = 1, **values: Any) -> tuple[Request, DAG]:
    request = make_request(status=RequestStatus.ACTIVE)
    return request, make_dag(make_round(request.workflow), nodes_held=nodes_held, **values)


def alerts(request: Request) -> list[Alert]:
    return list(Alert.objects.filter(request=request, closed_at__isnull=True))


@pytest.mark.parametrize(
    ("code", "seconds", "alerted"),
    [(1, 0, True), (16, 0, True), (34, 1, False), (12, 30, False), (26, 100_000, True)],
    ids=["by a person", "spooling", "memory, just now", "transfer, in its grace", "removal failed"],
)
def test_only_a_hold_that_lasts_is_an_alert(queue: Queue, code: int, seconds: float, alerted: bool) -> None:
    request, dag = active()
    queue.working.add((dag.token, "mg_000001"))
    queue.add(dag, code=code, seconds=seconds, reason="the reason HTCondor gives")

    report_stalls(now=timezone.now())

    assert [alert.message for alert in alerts(request)] == (
        ["1 job held in mg_000001: the reason HTCondor gives"] if alerted else []
    )


def test_a_group_in_which_everything_is_held_is_told_at_once(queue: Queue) -> None:
    request, dag = active()
    queue.working.add((dag.token, "mg_000002"))
    queue.add(dag, code=34, seconds=1, reason="too much memory")
    report_stalls(now=timezone.now())

    assert [alert.kind for alert in alerts(request)] == ["jobs_held"]


def test_the_alert_is_one_and_closes_with_the_hold(queue: Queue) -> None:
    request, dag = active()
    other, _ = active(nodes_held=0)
    queue.add(dag, code=1, seconds=0)
    report_stalls(now=timezone.now())
    report_stalls(now=timezone.now())

    (alert,) = alerts(request)
    assert (alert.kind, alert.count) == ("jobs_held", 2)
    assert not alerts(other)
    queue.jobs.clear()
    report_stalls(now=timezone.now())
    assert not alerts(request)


@pytest.mark.parametrize("asked_before", [False, True], ids=["just now", "for a while"])
def test_a_silent_schedd_hides_nothing_and_closes_nothing(queue: Queue, asked_before: bool) -> None:
    deaf, fine = active(schedd_name="deaf@pool"), active(schedd_name="fine@pool")
    late = active(schedd_name="fine@pool")
    for _, dag in (deaf, fine):
        queue.add(dag, code=1, seconds=0)
    report_stalls(now=timezone.now())
    queue.jobs.clear()
    queue.add(late[1], code=1, seconds=0)
    now = timezone.now()
    queue.silent = "" if asked_before else "deaf@pool"
    if asked_before:
        Schedd.objects.create(name="deaf@pool", silent_since=now, asked_at=now)

    report_stalls(now=now)

    assert [bool(alerts(request)) for request, _ in (deaf, fine, late)] == [True, False, True]
    queue.silent = ""
    Schedd.objects.all().delete()
    report_stalls(now=now)
    assert not alerts(deaf[0])


def test_days_without_a_slot_are_an_alert_of_their_own(queue: Queue) -> None:
    begun = timezone.now() - timedelta(days=3)
    request, dag = active(nodes_held=0, nodes_running=0, nodes_idle=1, submitted_at=begun)
    queue.add(dag, code=0, seconds=49 * 3600, reason="")
    report_stalls(now=timezone.now())

    (alert,) = alerts(request)
    assert alert.kind == "jobs_idle"
    assert "1 job in mg_000001 waiting for a slot, the first for 49 h" in alert.message


def test_without_a_suspicion_nobody_is_asked(queue: Queue) -> None:
    active(nodes_held=0)
    active(nodes_held=0, nodes_running=0, nodes_idle=1)
    report_stalls(now=timezone.now())

    assert queue.asked == 0
