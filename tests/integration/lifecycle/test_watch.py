"""The watcher: an error of one DAG or one part does not affect the rest."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.utils import timezone

from condor.fake import FakeSchedd
from dags_app.models import DAG
from dags_app.services.monitoring import Seen
from requests_app.lifecycle import monitoring
from requests_app.models import Alert, Request
from requests_app.states import RequestStatus as S
from tests.integration.factories import ago, make_dag, make_request, make_round

pytestmark = pytest.mark.django_db


def running(status: S, **values: Any) -> tuple[Request, DAG]:
    request = make_request(status=status, next_check_at=ago(hours=-1))
    return request, make_dag(make_round(request.workflow), **values)


def opened(request: Request) -> list[str]:
    return list(Alert.objects.filter(request=request, closed_at__isnull=True).values_list("kind", flat=True))


def sees(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    monkeypatch.setattr(monitoring, "observe_dags", lambda now: seen)


def test_a_dag_that_may_not_be_removed_does_not_block_others(
    fake_schedd: FakeSchedd, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ended, foreign), (other, gone) = running(S.ABORTED), running(S.ABORTED)
    active, dag = running(S.ACTIVE)
    fake_schedd.denied = {foreign.token}
    sees(monkeypatch, Seen(news={dag.workflow_id}))
    assert monitoring.watch_dags(now=timezone.now()) == 1
    active.refresh_from_db()
    assert active.next_check_at <= timezone.now()
    (denied, removed) = fake_schedd.called("remove_dag")
    assert (denied["batch_name"], removed["batch_name"]) == (foreign.token, gone.token)
    assert not removed["resumable"], "no rescue file is needed"
    assert (opened(ended), opened(other)) == (["dag_not_removed"], [])
    fake_schedd.denied.clear()
    monitoring.watch_dags(now=timezone.now())
    assert opened(ended) == []


def test_a_dag_made_after_the_abort_by_a_worker_that_was_planning_counts_as_stopped(
    fake_schedd: FakeSchedd,
) -> None:
    _, dag = running(S.ABORTED)
    monitoring.remove_abandoned(now=timezone.now())
    dag.refresh_from_db()
    (removed,) = fake_schedd.called("remove_dag")
    assert dag.stop_reason == "the request has ended"
    assert (removed["batch_name"], removed["resumable"]) == (dag.token, False)


def test_a_failing_part_is_reported_after_the_others_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    active, dag = running(S.ACTIVE)
    sees(monkeypatch, Seen(news={dag.workflow_id}))

    def broken(*, now: datetime) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(monitoring, "report_stalls", broken)
    with pytest.raises(ExceptionGroup) as result:
        monitoring.watch_dags(now=timezone.now())
    assert [type(one) for one in result.value.exceptions] == [ZeroDivisionError]
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
        monitoring.watch_dags(now=timezone.now())
        assert (opened(lost), opened(fine)) == (alerts, [])
