"""Who may run now: the limit, the order, and what an operator can change."""

from __future__ import annotations

import pytest
from django.utils import timezone

from requests_app import admission
from requests_app.lifecycle.advance import advance
from requests_app.models import Request
from requests_app.services.editing import change_request
from requests_app.states import RequestStatus as S
from tests.integration.factories import ago, make_request, make_site, make_workflow
from wms2_project.errors import InvalidInput, StaleVersion

pytestmark = pytest.mark.django_db


def limit(number: int) -> None:
    admission.change_limits(changes={"max_active_dags": number}, actor="user:olga", reason="test")


def admitted(request: Request) -> bool:
    return admission.decide(request, now=timezone.now()).admitted


def test_a_full_house_waits_and_says_so() -> None:
    limit(1)
    make_request(status=S.ACTIVE)
    verdict = admission.decide(make_request(status=S.QUEUED), now=timezone.now())
    assert (verdict.admitted, verdict.why) == (False, "admission 1/1, position 1")


@pytest.mark.parametrize("status", [S.PILOT_RUNNING, S.PLANNING, S.ACTIVE, S.STOPPING])
def test_what_runs_takes_capacity(status: S) -> None:
    limit(1)
    make_request(status=status)
    assert not admitted(make_request(status=S.QUEUED))


@pytest.mark.parametrize("status", [S.HELD, S.SUBMITTED, S.PARTIAL, S.COMPLETED])
def test_what_waits_or_has_ended_takes_none(status: S) -> None:
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


def test_paused_admission_admits_nobody_and_says_why() -> None:
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
