"""Jobs without progress raise an alert; those that end do not."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from condor.fake import FakePool
from condor.types import JobStatus
from dags_app.models import DAG, Schedd
from requests_app.lifecycle.stalling import report_stalls
from requests_app.models import Alert, Request
from requests_app.services.alerts import close_others
from requests_app.states import RequestStatus
from tests.integration.factories import make_dag, make_request, make_round, queue_dag

pytestmark = pytest.mark.django_db


@pytest.fixture
def queue(fake_pool: FakePool, settings: Any) -> FakePool:
    settings.SCHEDDS = ["fine@pool", "deaf@pool"]
    return fake_pool


def stick(pool: FakePool, dag: DAG, *, code: int, seconds: float, reason: str = "via condor_hold") -> None:
    """Leave a job of the DAG on hold for that long, or idle (code 0)."""
    schedd = queue_dag(pool[dag.schedd_name], dag)
    status = JobStatus.HELD if code else JobStatus.IDLE
    since = timezone.now().timestamp() - seconds
    hold = {"HoldReasonCode": code, "HoldReason": reason} if code else {}
    schedd.start_job(dag.token, "mg_000001", "proc_000003", status=status, since=since, **hold)


def work(pool: FakePool, dag: DAG, group: str) -> None:
    """Start another job of the group."""
    queue_dag(pool[dag.schedd_name], dag).start_job(dag.token, group, "proc_000004")


def clear(pool: FakePool) -> None:
    for schedd in pool.values():
        schedd.clear_jobs()


def active(nodes_held: int = 1, **values: Any) -> tuple[Request, DAG]:
    request = make_request(status=RequestStatus.ACTIVE)
    return request, make_dag(make_round(request.workflow), nodes_held=nodes_held, **values)


def watch_stalls(*, now: datetime) -> None:
    close_others(report_stalls(now=now))


def alerts(request: Request) -> list[Alert]:
    return list(Alert.objects.filter(request=request, closed_at__isnull=True))


@pytest.mark.parametrize(
    ("code", "seconds", "alerted"),
    [(1, 0, True), (16, 0, True), (34, 1, False), (12, 30, False), (26, 100_000, True)],
    ids=["by a person", "spooling", "memory, just now", "transfer, in its grace", "removal failed"],
)
def test_only_a_hold_that_lasts_is_an_alert(
    queue: FakePool, code: int, seconds: float, alerted: bool
) -> None:
    request, dag = active()
    work(queue, dag, "mg_000001")
    stick(queue, dag, code=code, seconds=seconds, reason="the reason HTCondor gives")

    watch_stalls(now=timezone.now())

    assert [alert.message for alert in alerts(request)] == (
        ["1 job held in mg_000001: the reason HTCondor gives"] if alerted else []
    )


def test_a_group_with_all_jobs_held_is_reported_at_once(queue: FakePool) -> None:
    request, dag = active()
    work(queue, dag, "mg_000002")
    stick(queue, dag, code=34, seconds=1, reason="too much memory")
    watch_stalls(now=timezone.now())

    assert [alert.kind for alert in alerts(request)] == ["jobs_held"]


def test_the_alert_is_one_and_closes_with_the_hold(queue: FakePool) -> None:
    request, dag = active()
    other, _ = active(nodes_held=0)
    stick(queue, dag, code=1, seconds=0)
    watch_stalls(now=timezone.now())
    watch_stalls(now=timezone.now())

    (alert,) = alerts(request)
    assert (alert.kind, alert.count) == ("jobs_held", 2)
    assert not alerts(other)
    clear(queue)
    watch_stalls(now=timezone.now())
    assert not alerts(request)


@pytest.mark.parametrize("asked_before", [False, True], ids=["just now", "for a while"])
def test_a_silent_schedd_hides_nothing_and_closes_nothing(queue: FakePool, asked_before: bool) -> None:
    deaf, fine = active(schedd_name="deaf@pool"), active(schedd_name="fine@pool")
    late = active(schedd_name="fine@pool")
    for _, dag in (deaf, fine):
        stick(queue, dag, code=1, seconds=0)
    watch_stalls(now=timezone.now())
    clear(queue)
    stick(queue, late[1], code=1, seconds=0)
    now = timezone.now()
    if not asked_before:
        queue["deaf@pool"].silence()
    else:
        Schedd.objects.create(name="deaf@pool", silent_since=now, asked_at=now)

    watch_stalls(now=now)

    assert [bool(alerts(request)) for request, _ in (deaf, fine, late)] == [True, False, True]
    queue["deaf@pool"].answer()
    Schedd.objects.all().delete()
    watch_stalls(now=now)
    assert not alerts(deaf[0])


def test_days_without_a_slot_are_an_alert_of_their_own(queue: FakePool) -> None:
    begun = timezone.now() - timedelta(days=3)
    request, dag = active(nodes_held=0, nodes_running=0, nodes_idle=1, submitted_at=begun)
    stick(queue, dag, code=0, seconds=49 * 3600, reason="")
    watch_stalls(now=timezone.now())

    (alert,) = alerts(request)
    assert alert.kind == "jobs_idle"
    assert "1 job in mg_000001 waiting for a slot, the first for 49 h" in alert.message


def test_without_suspect_dags_no_schedd_is_queried(queue: FakePool) -> None:
    active(nodes_held=0)
    active(nodes_held=0, nodes_running=0, nodes_idle=1)
    watch_stalls(now=timezone.now())

    assert [schedd.calls for schedd in queue.values()] == []
