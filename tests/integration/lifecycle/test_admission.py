"""Admission: the limit, the order, and what an operator can change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from requests_app import admission
from requests_app.lifecycle.advance import advance
from requests_app.models import Request
from requests_app.services.editing import change_request
from requests_app.states import RequestStatus as S
from sites_app.models import Site
from tests.integration.factories import ago, make_request, make_site, make_workflow
from wms2_project.errors import InvalidInput, ServiceUnavailable, StaleVersion
from wms2_project.locks import lock_key

pytestmark = pytest.mark.django_db


def limit(number: int) -> None:
    admission.change_limits(changes={"max_active_dags": number}, actor="user:olga", reason="test")


def admitted(request: Request) -> bool:
    return admission.decide(request, now=timezone.now()).admitted


def test_a_request_waits_and_names_the_limit_when_admission_is_full() -> None:
    limit(1)
    make_request(status=S.ACTIVE)
    verdict = admission.decide(make_request(status=S.QUEUED), now=timezone.now())
    assert (verdict.admitted, verdict.why) == (False, "admission 1/1, position 1")


@pytest.mark.parametrize("status", [S.PILOT_RUNNING, S.PLANNING, S.ACTIVE, S.STOPPING])
def test_running_requests_take_capacity(status: S) -> None:
    limit(1)
    make_request(status=status)
    assert not admitted(make_request(status=S.QUEUED))


@pytest.mark.parametrize("status", [S.HELD, S.SUBMITTED, S.PARTIAL, S.COMPLETED])
def test_waiting_and_ended_requests_take_no_capacity(status: S) -> None:
    limit(1)
    make_request(status=status)
    assert admitted(make_request(status=S.QUEUED))


def test_higher_priority_goes_first_and_age_decides_between_equals() -> None:
    limit(1)
    young = make_request(status=S.QUEUED, priority=5)
    old = make_request(status=S.QUEUED, priority=5)
    Request.objects.filter(pk=old.pk).update(created_at=ago(hours=1))
    old.refresh_from_db()
    assert (admitted(old), admitted(young)) == (True, False)
    urgent = make_request(status=S.QUEUED, priority=9)
    assert (admitted(urgent), admitted(old)) == (True, False)


def test_a_raised_priority_changes_the_order_at_once() -> None:
    limit(1)
    first = make_request(status=S.QUEUED, priority=5)
    second = make_request(status=S.QUEUED, priority=4)
    change_request(request=second, actor="user:olga", reason="a conference", changes={"priority": 6})
    second.refresh_from_db()
    assert (admitted(first), admitted(second)) == (False, True)


def test_paused_admission_admits_no_request_and_gives_the_reason() -> None:
    admission.change_limits(changes={"paused": True}, actor="user:olga", reason="storage is full")
    verdict = admission.decide(make_request(status=S.QUEUED), now=timezone.now())
    assert verdict.why == "admission is paused: storage is full"


def test_only_as_many_are_admitted_as_there_is_room() -> None:
    limit(3)
    make_site()
    for _ in range(8):
        generates = make_workflow(input_dataset=None, total_events=10)
        make_request(status=S.QUEUED, urgent=True, workflow=generates)
    for request in Request.objects.all():
        advance(request.pk)
    assert Request.objects.filter(status=S.PLANNING).count() == 3


@pytest.mark.parametrize(
    "changes",
    [{"max_active_dags": -1}, {"max_active_dags": "many"}, {"colour": 1}, {"storage_critical_fraction": 0.0}],
)
def test_a_limit_that_makes_no_sense_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        admission.change_limits(changes=changes, actor="user:olga", reason="test")
    assert admission.limits().max_active_dags == 300


def test_a_stale_change_of_limits_is_refused() -> None:
    limit(7)
    with pytest.raises(StaleVersion):
        admission.change_limits(
            changes={"max_active_dags": 9}, actor="user:ben", reason="test", expected_version=0
        )
    assert admission.limits().max_active_dags == 7


def runnable(**values: Any) -> Request:
    """Return a queued request without input, that needs no pilot and may use every site."""
    workflow = make_workflow(input_dataset=None, total_events=10, **values.pop("workflow", {}))
    return make_request(status=S.QUEUED, urgent=True, workflow=workflow, **values)


def status_after_look(request: Request) -> str:
    advance(request.pk)
    request.refresh_from_db()
    return str(request.status)


def test_requests_stopped_at_another_gate_do_not_delay_those_behind_them() -> None:
    limit(1)
    make_site("T2_CH_CERN")
    make_site("T2_US_Full", config_data={"storage_used_fraction": 0.99})
    stopped = [runnable(priority=9, workflow={"site_whitelist": ["T2_US_Full"]}) for _ in range(3)]
    behind = runnable(priority=5)
    assert [status_after_look(one) for one in stopped] == ["queued"] * 3
    assert [one.wait_gate for one in stopped] == ["storage"] * 3
    assert status_after_look(behind) == "planning"


def test_a_request_that_waits_after_an_error_does_not_delay_those_behind_it(
    adapt: Callable[..., None], settings: Any
) -> None:
    def away(dataset: str) -> None:
        raise ServiceUnavailable("DBS does not answer")

    settings.ERROR_BACKOFF_BASE_SEC = 60.0
    adapt(dbs=SimpleNamespace(dataset=away))
    limit(1)
    make_site()
    first, behind = make_request(status=S.QUEUED, priority=9), runnable(priority=5)
    assert not admitted(behind)
    assert status_after_look(first) == "queued"
    assert status_after_look(behind) == "planning"


def test_an_opened_gate_gives_the_request_its_place_back() -> None:
    limit(1)
    make_site()
    full = make_site("T2_US_Full", config_data={"storage_used_fraction": 0.99})
    first = runnable(priority=9, workflow={"site_whitelist": [full.name]})
    status_after_look(first)
    Site.objects.filter(pk=full.pk).update(config_data={})
    running = make_request(status=S.ACTIVE)
    status_after_look(first)  # storage has room now, but the only place is taken
    behind = runnable(priority=5)
    Request.objects.filter(pk=running.pk).update(status=S.COMPLETED)
    assert (first.wait_gate, status_after_look(behind), status_after_look(first)) == (
        "admission", "queued", "planning",
    )  # fmt: skip


def test_a_freed_place_wakes_the_first_that_no_other_gate_stops() -> None:
    limit(1)
    make_site()
    full = make_site("T2_US_Full", config_data={"storage_used_fraction": 0.99})
    stopped = runnable(priority=9, workflow={"site_whitelist": [full.name]})
    behind = runnable(priority=5)
    status_after_look(stopped)
    later = timezone.now() + timedelta(hours=1)
    Request.objects.update(next_check_at=later)
    assert admission.wake_next() == 1
    behind.refresh_from_db()
    assert behind.next_check_at < later


def test_a_gate_that_only_a_person_can_open_holds_a_request_at_its_turn() -> None:
    limit(1)
    make_site()
    make_request(status=S.ACTIVE)
    nowhere = runnable(priority=9, workflow={"site_whitelist": ["T2_US_Gone"]})
    behind = runnable(priority=5)
    assert (status_after_look(nowhere), nowhere.wait_gate) == ("queued", "sites")
    assert "no usable site" in nowhere.wait_reason
    limit(2)
    assert status_after_look(behind) == "planning"
    limit(3)
    assert status_after_look(nowhere) == "held"


def test_the_input_is_resolved_without_the_lock_of_admission(adapt: Callable[..., None]) -> None:
    held: list[bool] = []

    def unknown(dataset: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory'"
                " AND (classid::bigint << 32 | objid::bigint) = %s)",
                [lock_key("admission")],
            )
            held.append(cursor.fetchone()[0])

    adapt(dbs=SimpleNamespace(dataset=unknown))
    assert status_after_look(make_request(status=S.QUEUED)) == "held"
    assert held == [False]


def test_a_place_taken_since_the_decision_is_not_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(1)
    make_site()
    first, second = runnable(priority=9), runnable(priority=5)
    decide, seen = admission.decide, list[str]()

    def decide_late(request: Request, *, now: Any) -> admission.Verdict:
        verdict = decide(request, now=now)
        if request.pk == first.pk and not seen:
            seen.append(verdict.why)
            Request.objects.filter(pk=second.pk).update(status=S.PLANNING)
        return verdict

    monkeypatch.setattr(admission, "decide", decide_late)
    assert (status_after_look(first), first.wait_reason) == ("queued", "admission 1/1, position 1")
