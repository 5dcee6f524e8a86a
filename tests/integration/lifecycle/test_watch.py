"""The one watcher: whatever is wrong with one DAG, or in one part of the watch, the rest is seen to."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.utils import timezone

from condor.types import ScheddLimits
from dags_app.models import DAG
from dags_app.services import control, monitoring
from dags_app.services.monitoring import Seen
from requests_app.lifecycle import watch
from requests_app.models import Alert, Request
from requests_app.states import RequestStatus as S
from tests.integration.factories import ago, make_dag, make_request, make_round
from wms2_project.errors import ServiceRejected

pytestmark = pytest.mark.django_db


class Queue:
    """A schedd with an empty queue; it may deny the removal of some DAGs."""

    def __init__(self) -> None:
        self.denied: set[str] = set()
        self.removed: list[tuple[str, bool]] = []

    def query_dags(self) -> dict[str, Any]:
        return {}

    def limits(self) -> ScheddLimits:
        return ScheddLimits(200, 500, 0)

    def remove_dag(self, batch_name: str, *, reason: str, resumable: bool = True) -> int:
        if batch_name in self.denied:
            raise ServiceRejected("Remove: the schedd denies permission", cure="Run WMS2 as the DAG's owner")
        self.removed.append((batch_name, resumable))
        return 1


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    made = Queue()
    for module in (monitoring, control):
        monkeypatch.setattr(module, "schedd", lambda name="": made)
    return made


def running(status: S, **values: Any) -> tuple[Request, DAG]:
    request = make_request(status=status, next_check_at=ago(hours=-1))
    return request, make_dag(make_round(request.workflow), **values)


def opened(request: Request) -> list[str]:
    return list(Alert.objects.filter(request=request, closed_at__isnull=True).values_list("kind", flat=True))


def sees(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    monkeypatch.setattr(watch, "observe_dags", lambda now: seen)


def test_a_dag_that_may_not_be_removed_keeps_nobody_from_anything(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ended, foreign), (other, gone) = running(S.ABORTED), running(S.ABORTED)
    active, dag = running(S.ACTIVE)
    queue.denied = {foreign.token}
    sees(monkeypatch, Seen(news={dag.workflow_id}))
    assert watch.watch_dags(now=timezone.now()) == 1
    active.refresh_from_db()
    assert active.next_check_at <= timezone.now()
    assert queue.removed == [(gone.token, False)], "and nobody waits for a rescue file that nobody will use"
    assert (opened(ended), opened(other)) == (["dag_not_removed"], [])
    queue.denied.clear()
    watch.watch_dags(now=timezone.now())
    assert opened(ended) == []


def test_a_dag_made_after_the_abort_by_a_worker_that_was_planning_counts_as_stopped(queue: Queue) -> None:
    _, dag = running(S.ABORTED)
    watch.remove_abandoned(now=timezone.now())
    dag.refresh_from_db()
    assert (dag.stop_reason, queue.removed) == ("the request has ended", [(dag.token, False)])


def test_a_part_that_fails_is_told_after_the_others_had_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    active, dag = running(S.ACTIVE)
    sees(monkeypatch, Seen(news={dag.workflow_id}))

    def broken(*, now: datetime) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(watch, "report_stalls", broken)
    with pytest.raises(ExceptionGroup) as told:
        watch.watch_dags(now=timezone.now())
    assert [type(one) for one in told.value.exceptions] == [ZeroDivisionError]
    active.refresh_from_db()
    assert active.next_check_at <= timezone.now()


def test_files_that_cannot_be_read_are_an_alert_until_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    (lost, dag), (fine, _) = running(S.ACTIVE), running(S.ACTIVE)
    for seen, alerts in (
        (
            Seen(unreadable={dag.workflow_id: "[Errno 5] Input/output error: '/srv/dags/1'"}),
            ["dag_unreadable"],
        ),
        (Seen(unknown={dag.workflow_id}), ["dag_unreadable"]),
        (Seen(), []),
    ):
        sees(monkeypatch, seen)
        watch.watch_dags(now=timezone.now())
        assert (opened(lost), opened(fine)) == (alerts, [])
