"""Concurrent changes on PostgreSQL: one takes effect, the others get an error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from dags_app.models import DAG
from dags_app.services.schedds import drain_schedd, enable_schedd
from requests_app.lifecycle import handlers
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.outcome import Move, Outcome
from requests_app.models import Request
from requests_app.services import editing, releasing, rescuing, restarting, stopping
from requests_app.services.importing import import_request
from requests_app.states import RequestStatus
from tests.integration.factories import DOCUMENT, ago, make_dag, make_request, make_round
from wms2_project.errors import Conflict
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db(transaction=True)
S = RequestStatus
OPERATORS = 6
Action = Callable[[Request, str], Any]


def all_at_once(request: Request, *actions: Action) -> tuple[list[Any], list[Conflict]]:
    """Run each action as another operator in a separate session, on a row read before any of them began."""
    barrier = threading.Barrier(len(actions))

    def work(number: int) -> Any:
        try:
            mine = Request.objects.select_related("workflow").get(pk=request.pk)
            barrier.wait(timeout=30)
            return actions[number](mine, f"user:op{number}")
        except Conflict as conflict:
            return conflict
        finally:
            connection.close()

    with ThreadPoolExecutor(len(actions)) as pool:
        answers = list(pool.map(work, range(len(actions))))
    refused = [answer for answer in answers if isinstance(answer, Conflict)]
    return [answer for answer in answers if not isinstance(answer, Conflict)], refused


def stop(request: Request, actor: str) -> Any:
    return stopping.stop_request(request=request, actor=actor, reason=f"{actor} stops", hold=True)


def abort(request: Request, actor: str) -> Any:
    return stopping.abort_request(request=request, actor=actor, reason=f"{actor} aborts")


def restart(request: Request, actor: str) -> Any:
    return restarting.restart_request(request=request, actor=actor, reason=f"{actor} restarts")


def release(request: Request, actor: str) -> Any:
    return releasing.release_request(
        request=request, actor=actor, reason=f"{actor} releases", now=timezone.now()
    )


def raise_priority(request: Request, actor: str) -> Any:
    number = int(actor.removeprefix("user:op"))
    return editing.change_request(request=request, actor=actor, reason="mine", changes={"priority": number})


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [(stop, S.ACTIVE, S.STOPPING), (abort, S.ACTIVE, S.ABORTED), (release, S.HELD, S.QUEUED)],
)
def test_the_same_action_by_many_has_one_effect(
    action: Action, before: RequestStatus, after: RequestStatus
) -> None:
    request = make_request(status=before)
    if before is S.ACTIVE:
        make_dag(make_round(request.workflow))

    done, refused = all_at_once(request, *[action] * OPERATORS)

    request.refresh_from_db()
    last = request.transitions.last()
    assert last is not None
    assert (len(done), len(refused)) == (1, OPERATORS - 1)
    assert (request.status, request.version, request.transitions.count()) == (after, 1, 2)
    assert all(request.request_name in str(one) for one in refused)
    assert DAG.objects.filter(stop_reason__in=["", last.reason]).count() == DAG.objects.count()


def test_conflicting_operations_have_one_winner(db: None) -> None:
    request, _ = import_request(document=DOCUMENT, actor="user:ana")
    Request.objects.filter(pk=request.pk).update(status=S.ACTIVE)
    make_dag(make_round(request.workflow))

    done, refused = all_at_once(request, stop, abort, restart, stop, abort, restart)

    request.refresh_from_db()
    assert (len(done), len(refused)) == (1, 5)
    assert (request.version, request.transitions.count()) == (1, 2)
    restarted = Request.objects.filter(previous_version=request).count()
    assert restarted == AuditEvent.objects.filter(action="restart").count() == (request.status == S.FAILED)


def test_restarting_an_ended_request_makes_one_version(db: None) -> None:
    request, _ = import_request(document=DOCUMENT, actor="user:ana")
    Request.objects.filter(pk=request.pk).update(status=S.ABORTED)
    done, refused = all_at_once(request, *[restart] * OPERATORS)
    assert (len(done), len(refused)) == (1, OPERATORS - 1)
    assert Request.objects.filter(previous_version=request).count() == 1


def test_concurrent_changes_are_not_mixed_and_each_loser_gets_an_error() -> None:
    request = make_request(status=S.ACTIVE)
    done, refused = all_at_once(request, *[raise_priority] * OPERATORS)
    request.refresh_from_db()
    assert len(done) + len(refused) == OPERATORS
    assert request.version == len(done) == AuditEvent.objects.count()
    assert request.rank == request.priority < OPERATORS
    newest = AuditEvent.objects.latest("id")
    assert newest.detail["changes"]["priority"] == request.priority


def test_a_dag_is_rescued_once() -> None:
    request = make_request(status=S.HELD)
    dag = make_dag(make_round(request.workflow), status="partial", completed_at=ago(minutes=1))

    def rescue(mine: Request, actor: str) -> Any:
        return rescuing.rescue_dag(dag=DAG.objects.get(pk=dag.pk), actor=actor, reason="again")

    done, refused = all_at_once(request, *[rescue] * OPERATORS)
    assert (len(done), len(refused)) == (1, OPERATORS - 1)
    assert DAG.objects.filter(parent=dag).count() == 1


def test_the_last_of_two_concurrent_changes_of_a_schedd_applies(settings: Any) -> None:
    settings.SCHEDDS = ["one@pool"]
    request = make_request()

    def drain(mine: Request, actor: str) -> Any:
        return drain_schedd(name="one@pool", actor=actor, reason=actor)

    def enable(mine: Request, actor: str) -> Any:
        return enable_schedd(name="one@pool", actor=actor, reason=actor)

    done, refused = all_at_once(request, drain, enable, drain, enable)
    newest = AuditEvent.objects.latest("id")
    row = next(one for one in done if one.version == 4)
    assert (len(done), refused) == (4, [])
    assert (row.status, row.reason) == (newest.action, newest.actor)


def test_the_machine_and_an_operator_never_both_move_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler and an operator have both decided, and neither has written."""
    barrier = threading.Barrier(2)
    request = make_request(status=S.PLANNING)

    def decided(row: Request, now: datetime) -> Outcome:
        barrier.wait(timeout=30)
        return Move(S.ACTIVE, "submitted")

    def machine(mine: Request, actor: str) -> Any:
        return advance(mine.pk)

    def operator(mine: Request, actor: str) -> Any:
        barrier.wait(timeout=30)
        return stop(mine, actor)

    monkeypatch.setitem(handlers.HANDLERS, S.PLANNING, decided)
    for _ in range(10):
        Request.objects.filter(pk=request.pk).update(status=S.PLANNING, version=0)
        before = request.transitions.count()
        _, refused = all_at_once(request, machine, operator)
        request.refresh_from_db()
        moves = request.transitions.count() - before
        # Either the operator writes first and the handler's outcome is dropped, or writes second and gets an
        # error.
        assert (request.status, moves, len(refused)) in (("stopping", 1, 0), ("active", 1, 1))


def test_one_request_is_advanced_by_one_worker_however_often_it_is_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = make_request(status=S.ACTIVE)
    inside, most = [0], [0]

    def counted(row: Request, now: datetime) -> Outcome:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threading.Event().wait(0.2)
        inside[0] -= 1
        return Move(S.PARTIAL, "ended")

    monkeypatch.setitem(handlers.HANDLERS, S.ACTIVE, counted)
    monkeypatch.setitem(handlers.HANDLERS, S.PARTIAL, counted)
    all_at_once(request, *[lambda mine, actor: advance(mine.pk)] * OPERATORS)
    assert most[0] == 1
    assert request.transitions.filter(to_status=S.PARTIAL).count() == 1
