"""Claims are leases by the database clock."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from requests_app.models import Request
from requests_app.states import SWEPT, RequestStatus
from tests.integration.factories import make_request
from wms2_project.leases import Claim, backoff_seconds, claim_due, release, wake, working_on
from wms2_project.locks import try_lock

STATUSES = sorted(SWEPT)


def claim(limit: int = 100) -> list[Claim]:
    return claim_due(Request, statuses=STATUSES, limit=limit)


@pytest.mark.django_db
def test_a_due_request_is_claimed_once() -> None:
    request = make_request(status=RequestStatus.QUEUED)
    assert [one.id for one in claim()] == [request.pk]
    assert claim() == []


@pytest.mark.django_db
def test_no_more_rows_are_claimed_than_requested_with_any_query_plan() -> None:
    make_request(status=RequestStatus.QUEUED)
    with connection.cursor() as cursor:  # believing in a single row, a plan may run the inner LIMIT per row
        cursor.execute(f"ANALYZE {Request._meta.db_table}")
    for _ in range(3):
        make_request(status=RequestStatus.QUEUED)
    assert [len(claim(limit=1)) for _ in range(5)] == [1, 1, 1, 1, 0]


@pytest.mark.django_db
@pytest.mark.parametrize("status", [RequestStatus.HELD, RequestStatus.NEW, RequestStatus.COMPLETED])
def test_requests_that_wait_for_a_person_are_never_claimed(status: RequestStatus) -> None:
    make_request(status=status)
    assert claim() == []


@pytest.mark.django_db
def test_a_request_that_is_not_due_is_not_processed_until_it_is_woken() -> None:
    request = make_request(status=RequestStatus.QUEUED, next_check_at=timezone.now() + timedelta(hours=1))
    assert claim() == []
    wake(Request.objects.filter(pk=request.pk))
    assert len(claim()) == 1


@pytest.mark.django_db
def test_a_lease_that_ran_out_in_a_workers_hands_counts_as_a_death() -> None:
    request = make_request(status=RequestStatus.PLANNING)
    claim()
    rows = Request.objects.filter(pk=request.pk)
    rows.update(owner="worker:gone:1", heartbeat_at=Now() - timedelta(seconds=31))
    assert len(claim()) == 1
    assert rows.get().worker_deaths == 1


@pytest.mark.django_db
def test_a_message_lost_in_the_queue_is_claimed_again_and_counts_no_death() -> None:
    request = make_request(status=RequestStatus.PLANNING)
    claim()
    rows = Request.objects.filter(pk=request.pk)
    rows.update(heartbeat_at=Now() - timedelta(seconds=31))
    assert len(claim()) == 1
    assert rows.get().worker_deaths == 0


@pytest.mark.django_db
def test_release_makes_it_due_later_and_resets_the_deaths() -> None:
    request = make_request(status=RequestStatus.QUEUED, worker_deaths=2)
    with working_on(request):
        assert Request.objects.get(pk=request.pk).owner.startswith("worker:")
    release(request, seconds=60)
    request.refresh_from_db()
    assert (request.owner, request.worker_deaths) == ("", 0)
    assert request.next_check_at > timezone.now() + timedelta(seconds=50)


@pytest.mark.django_db(transaction=True)
def test_sweeps_at_the_same_time_never_claim_the_same_request() -> None:
    for _ in range(60):
        make_request(status=RequestStatus.QUEUED)
    found: list[Claim] = []
    barrier = threading.Barrier(4)

    def sweep() -> None:
        barrier.wait()
        for _ in range(10):
            found.extend(claim(limit=5))
        connection.close()

    threads = [threading.Thread(target=sweep) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len({one.id for one in found}) == 60


@pytest.mark.django_db(transaction=True)
def test_a_second_session_does_not_get_a_lock_that_is_held() -> None:
    answers: list[bool] = []

    def rival() -> None:
        with try_lock("the thing") as held:
            answers.append(held)
        connection.close()

    with try_lock("the thing") as held:
        assert held
        thread = threading.Thread(target=rival)
        thread.start()
        thread.join()
    thread = threading.Thread(target=rival)
    thread.start()
    thread.join()
    assert answers == [False, True]


def test_waiting_doubles_and_is_bounded() -> None:
    waits = [backoff_seconds(attempt) for attempt in range(1, 40)]
    assert waits[1] == 2 * waits[0]
    assert waits[-1] == 600.0
