"""Claims of the sweep and their order: queued requests never delay running ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import redis
from django.conf import settings as live_settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from kombu import Queue

from dags_app.models import Workflow
from outputs_app.models import OutputBlock
from outputs_app.states import BlockStatus
from requests_app import admission, tasks
from requests_app.lifecycle import due
from requests_app.lifecycle.advance import advance
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from requests_app.transitions import transition
from tests.integration.factories import ago, make_block, make_group, make_request, make_round, make_workflow
from wms2_project.observation import heartbeat

pytestmark = pytest.mark.django_db


def waiting(monkeypatch: pytest.MonkeyPatch, messages: dict[tuple[str, int], int] | None) -> None:
    """Simulate waiting messages of each priority in the queues; None: Redis is unavailable."""

    def lengths(*, priority: int) -> dict[str, int] | None:
        if messages is None:
            return None
        found = dict.fromkeys(heartbeat.queue_names(), 0)
        for (queue, step), n in messages.items():
            found[queue] += n if step <= priority else 0
        return found

    monkeypatch.setattr(due, "queue_lengths", lengths)


def line(n: int, **values: Any) -> list[Request]:
    """Return queued requests in the order of the queue, each an hour younger than the one before."""
    later = timezone.now() + timedelta(hours=1)
    return [make_request(status=S.QUEUED, rank=100.0 - i, next_check_at=later, **values) for i in range(n)]


def due_now(rows: list[Request]) -> list[bool]:
    return [Request.objects.get(pk=row.pk).next_check_at <= timezone.now() for row in rows]


def limit(n: int, **changes: Any) -> None:
    admission.change_limits(
        changes={"max_active_dags": n} | changes, actor="operator:olga", reason="a change of limits"
    )


def test_queued_requests_are_claimed_after_all_others(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SWEEP_BATCH = 2
    waiting(monkeypatch, {})
    for _ in range(3):
        make_request(status=S.QUEUED, next_check_at=ago(minutes=5))
    running = [make_request(status=S.ACTIVE), make_request(status=S.PARTIAL)]
    claimed = due.claim_requests()
    assert {claim.id for claim, _ in claimed[:2]} == {row.pk for row in running}
    assert [claim.status for claim, _ in claimed[2:]] == [S.QUEUED]  # what the queue they share still takes


def test_a_full_queue_gets_nothing_more_and_the_others_do(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SWEEP_BATCH = 3
    for _ in range(3):
        make_request(status=S.ACTIVE)
        make_request(status=S.PLANNING)
    waiting(monkeypatch, {("condor", 0): 2, ("planning", 0): 7})
    assert [queue for _, queue in due.claim_requests()] == ["condor"]
    waiting(monkeypatch, None)
    assert sorted(queue for _, queue in due.claim_requests()) == ["condor"] * 2 + ["planning"] * 3


def test_waiting_checks_of_queued_requests_do_not_delay_urgent_tasks(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SWEEP_BATCH = 2
    make_request(status=S.QUEUED)
    make_request(status=S.PARTIAL)
    waiting(monkeypatch, {("lifecycle", due.priority_of(S.QUEUED)): 2})
    assert [claim.status for claim, _ in due.claim_requests()] == [S.PARTIAL]


def test_transfers_that_wait_to_be_polled_do_not_keep_a_block_from_being_protected(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SWEEP_BATCH = 2
    long_ago = ago(minutes=5)
    for status in (BlockStatus.PENDING, BlockStatus.TRANSFERRED, BlockStatus.TRANSFERRING):
        group = make_group(make_round(make_workflow()))
        make_block(group, status=status, next_check_at=long_ago, closed_at=long_ago)
    waiting(monkeypatch, {("outputs", 3): 1, ("outputs", 9): 9})
    assert [claim.status for claim, _ in due.claim_blocks()] == [BlockStatus.PENDING]


def test_a_check_of_a_queued_request_has_the_lowest_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(monkeypatch, {})
    queued, running = make_request(status=S.QUEUED), make_request(status=S.ACTIVE)
    sent: dict[str, tuple[str, int]] = {}
    monkeypatch.setattr(
        tasks.advance_request,
        "apply_async",
        lambda args, queue, priority, producer: sent.update({args[0]: (queue, priority)}),
    )
    tasks.sweep()
    assert sent == {str(queued.pk): ("lifecycle", 9), str(running.pk): ("condor", 0)}


@pytest.fixture
def own_queue(settings: Any) -> Iterator[str]:
    """Yield a queue of this test in the real Redis."""
    name = f"test-{uuid4()}"
    settings.CELERY_TASK_QUEUES = [Queue(name)]
    client = redis.Redis.from_url(live_settings.REDIS_URL)
    keys = {0: name, 3: f"{name}\x06\x163", 9: f"{name}\x06\x169"}
    for priority, key in keys.items():
        client.rpush(key, *["message"] * (priority + 1))
    yield name
    client.delete(*keys.values())


@pytest.mark.parametrize(("priority", "n"), [(0, 1), (3, 5), (9, 15)])
def test_messages_are_counted_up_to_a_priority(own_queue: str, priority: int, n: int) -> None:
    assert heartbeat.queue_lengths(priority=priority) == {own_queue: n}


@pytest.mark.parametrize(
    ("behind", "seconds"), [(0, 10), (1, 10), (10, 10), (50, 50), (300, 300), (9000, 300)]
)
def test_the_further_back_in_line_the_rarer_the_looks(settings: Any, behind: int, seconds: float) -> None:
    settings.POLL_INTERVAL_SEC = 10.0
    assert admission.next_check_sec(behind) == seconds


@pytest.mark.parametrize("paused", [False, True])
def test_requests_far_back_in_the_queue_are_checked_less_often(settings: Any, paused: bool) -> None:
    settings.POLL_INTERVAL_SEC = 10.0
    limit(0, paused=paused)
    rows = line(31)
    Workflow.objects.update(input_resolved_at=ago(days=1))
    for row in (rows[0], rows[-1]):
        advance(row.pk)
        row.refresh_from_db()
    assert rows[-1].next_check_at - rows[0].next_check_at > timedelta(seconds=15)


def test_a_freed_slot_makes_the_first_queued_request_due() -> None:
    limit(2)
    ends, _ = make_request(status=S.ACTIVE), make_request(status=S.ACTIVE)
    rows = line(3)
    transition(request=ends, to=S.COMPLETED, reason="done", actor="system:lifecycle")
    assert due_now(rows) == [True, False, False]


def test_a_move_that_frees_no_slot_wakes_no_request() -> None:
    limit(1)
    moves = make_request(status=S.PLANNING)
    rows = line(2)
    transition(request=moves, to=S.ACTIVE, reason="submitted", actor="system:lifecycle")
    assert due_now(rows) == [False, False]


@pytest.mark.parametrize(
    ("changes", "woken"),
    [
        ({"max_active_dags": 2}, [True, True, False]),
        ({"max_active_dags": 2, "paused": True}, [False, False, False]),
        ({"max_active_dags": 0}, [False, False, False]),
    ],
)
def test_changed_limits_make_requests_due_that_may_start(changes: dict[str, Any], woken: list[bool]) -> None:
    limit(0)
    rows = line(3)
    admission.change_limits(changes=changes, actor="operator:olga", reason="more machines")
    assert due_now(rows) == woken


def test_a_free_place_does_not_end_the_wait_after_an_error() -> None:
    limit(0)
    rows = line(1, attempt=3)
    limit(5)
    assert due_now(rows) == [False]


def test_an_empty_tier_is_found_empty_without_reading_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(monkeypatch, {})
    block = make_block(make_group(make_round(make_workflow())), status=BlockStatus.TRANSFERRING)
    polled = [
        OutputBlock(dataset=block.dataset, block_name=f"/A/B/C#{n}", status=block.status, closed_at=ago())
        for n in range(300)
    ]
    OutputBlock.objects.bulk_create(polled)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE outputs_app_outputblock; SET LOCAL enable_seqscan = off")
    with CaptureQueriesContext(connection) as asked:
        due.claim_blocks()
    plans = []
    with connection.cursor() as cursor:
        for one in asked:
            cursor.execute(f"EXPLAIN {one['sql']}")
            plans.append("\n".join(row[0] for row in cursor.fetchall()))
    names = ["output_block_protect", "output_block_request", "output_block_due"]
    assert [name in plan for name, plan in zip(names, plans, strict=True)] == [True] * 3, plans
