"""Steps that fail or meet a rate limit: what counts as a failure, pauses, alerts and holds."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from dags_app.adapters import rucio, use_adapters
from dags_app.models import Workflow
from outputs_app.models import OutputBlock
from outputs_app.pipeline import PIPELINE, RATE_LIMIT_PATIENCE_SEC, RATE_LIMIT_RETRY_SEC, Step, Tier
from outputs_app.selectors import unannounced
from outputs_app.services import advance_block, invalidate_outputs
from outputs_app.states import BlockStatus
from outputs_app.steps import STEPS
from requests_app.lifecycle import handlers
from requests_app.lifecycle.finishing import watch_outputs
from requests_app.lifecycle.maintenance import tidy_up
from requests_app.lifecycle.outcome import Move, Wait
from requests_app.models import Alert, Request, StatusTransition
from requests_app.states import TERMINAL, RequestStatus
from tests.integration.outputs.blocks import walk
from tests.integration.outputs.conftest import Faults
from tests.stand_in import Overridden
from wms2_project.errors import RateLimited
from wms2_project.service_guards import Turn, current_turn

pytestmark = pytest.mark.django_db
B = BlockStatus
DOWN = {"service": "rucio", "method": "POST", "path_regex": "/replicas", "kind": "status", "times": None}


@pytest.fixture
def active(workflow: Workflow) -> Request:
    request = Request.objects.get(workflow=workflow)
    hour_ago = timezone.now() - timedelta(hours=1)
    Request.objects.filter(pk=request.pk).update(status=RequestStatus.ACTIVE, status_since=hour_ago)
    request.refresh_from_db()
    return request


LIMITED = "the WMS2 limit of 20 calls per second to rucio is used up"


def limit(monkeypatch: pytest.MonkeyPatch, step: Step) -> None:
    def refuse(block: OutputBlock, now: datetime) -> BlockStatus:
        raise RateLimited(LIMITED)

    monkeypatch.setitem(STEPS, step, refuse)


def test_waiting_for_our_own_rate_limit_is_no_failure(
    active: Request, block: OutputBlock, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OUTPUT_ALERT_AFTER_SEC = settings.OUTPUT_HOLD_AFTER_SEC = 0.0
    limit(monkeypatch, Step.REGISTER)

    for _ in range(3):
        advance_block(block.pk)

    block.refresh_from_db()
    assert (block.attempt, block.failing_since, block.owner) == (0, None, "")
    assert block.next_check_at - timezone.now() <= timedelta(seconds=RATE_LIMIT_RETRY_SEC[Tier.PROTECT])
    tidy_up(now=timezone.now() + timedelta(hours=7))
    assert not Alert.objects.exists()
    waiting = handlers.on_active(active, timezone.now() + timedelta(hours=7))
    assert isinstance(waiting, Wait)
    assert f"1 block waiting for a call: {LIMITED}" in unannounced(workflow=block.dataset.workflow)


def test_a_rate_limit_neither_adds_to_a_row_of_errors_nor_hides_it(
    block: OutputBlock, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults(DOWN | {"status": 503})
    advance_block(block.pk)
    block.refresh_from_db()
    since, attempt = block.failing_since, block.attempt
    limit(monkeypatch, Step.PROTECT)

    advance_block(block.pk)

    block.refresh_from_db()
    assert (block.failing_since, block.attempt, "503" in block.last_error) == (since, attempt, True)


def test_a_step_that_succeeds_before_a_rate_limit_ends_the_row_of_errors(
    block: OutputBlock, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults({"service": "dbs", "kind": "status", "status": 503, "times": None})
    advance_block(block.pk)
    faults()
    limit(monkeypatch, Step.PROTECT)

    advance_block(block.pk)

    block.refresh_from_db()
    assert (block.status, block.attempt, block.failing_since) == (B.DBS_REGISTERED, 0, None)
    assert LIMITED in block.last_error


@pytest.mark.usefixtures("subscribed")
def test_a_poll_that_found_the_limit_used_up_is_repeated_before_the_next_interval(
    block: OutputBlock, lab: Any, settings: Any
) -> None:
    settings.TRANSFER_POLL_INTERVAL_SEC = 300.0
    lab("PUT", "settings", {"rule_delay_sec": 0})
    walk(block, until=B.TRANSFERS_REQUESTED)

    def refuse(rule_id: str) -> None:
        raise RateLimited(LIMITED)

    with use_adapters(rucio=Overridden(rucio(), rule=refuse)):
        advance_block(block.pk)
    block.refresh_from_db()
    assert block.last_transfer_check is None
    assert block.next_check_at - timezone.now() <= timedelta(seconds=RATE_LIMIT_RETRY_SEC[Tier.POLL])
    assert walk(block).status == B.ANNOUNCED


@pytest.mark.parametrize(
    ("status", "tier"),
    [(B.PENDING, Tier.PROTECT), (B.SOURCE_PROTECTED, Tier.REQUEST), (B.TRANSFERRING, Tier.POLL)],
)
def test_a_step_calls_in_the_name_of_its_tier(
    status: BlockStatus, tier: Tier, block: OutputBlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    OutputBlock.objects.filter(pk=block.pk).update(status=status)
    turns: list[Turn] = []

    def note_turn(block: OutputBlock, now: datetime) -> BlockStatus:
        turns.append(current_turn())
        raise RateLimited(LIMITED)

    monkeypatch.setitem(STEPS, PIPELINE[status].step, note_turn)
    advance_block(block.pk)

    assert [(turn.rank, turn.patience_sec) for turn in turns] == [(tier, RATE_LIMIT_PATIENCE_SEC[tier])]


def test_a_block_that_keeps_failing_backs_off_alerts_and_holds_its_request(
    active: Request, block: OutputBlock, faults: Faults, settings: Any
) -> None:
    settings.OUTPUT_ALERT_AFTER_SEC, settings.OUTPUT_HOLD_AFTER_SEC = 60.0, 600.0
    settings.ERROR_BACKOFF_BASE_SEC = 60.0
    faults(DOWN | {"status": 503})
    waits = []
    for _ in range(3):
        advance_block(block.pk)
        block.refresh_from_db()
        waits.append(block.next_check_at - timezone.now())
    assert waits == sorted(waits)

    def look(after: float) -> Any:
        assert block.failing_since is not None
        watch_outputs(now=block.failing_since + timedelta(seconds=after))
        return handlers.on_active(active, block.failing_since + timedelta(seconds=after))

    assert isinstance(look(30), Wait)
    assert not Alert.objects.exists()
    waiting = look(61)
    assert isinstance(waiting, Wait)
    assert "503" in waiting.why
    assert "503" in Alert.objects.get(kind="outputs_failing", closed_at=None).message
    held = look(601)
    assert isinstance(held, Move)
    assert (held.to, "503" in held.changes["hold_evidence"]["service_says"]) == (RequestStatus.HELD, True)


def test_a_released_request_gets_the_whole_time_again_and_the_alert_ends_with_the_trouble(
    active: Request, block: OutputBlock, faults: Faults, settings: Any
) -> None:
    settings.OUTPUT_ALERT_AFTER_SEC, settings.OUTPUT_HOLD_AFTER_SEC = 0.0, 600.0
    faults(DOWN | {"status": 503})
    advance_block(block.pk)
    long_ago = timezone.now() - timedelta(hours=5)
    OutputBlock.objects.filter(pk=block.pk).update(failing_since=long_ago)
    assert isinstance(handlers.on_active(active, timezone.now()), Move)
    StatusTransition.objects.create(
        request=active, from_status=RequestStatus.HELD, to_status=RequestStatus.QUEUED, actor="user:olga",
        reason="Rucio is fixed", at=timezone.now(),
    )  # fmt: skip
    assert isinstance(handlers.on_active(active, timezone.now()), Wait)
    tidy_up(now=timezone.now())
    assert Alert.objects.filter(closed_at=None).exists()
    faults()
    walk(block)
    tidy_up(now=timezone.now())
    assert not Alert.objects.filter(closed_at=None).exists()


@pytest.mark.parametrize("ended", sorted(TERMINAL))
def test_outputs_that_cannot_be_taken_back_alert_after_the_request_has_ended(
    ended: RequestStatus, active: Request, block: OutputBlock, faults: Faults, lab: Any, settings: Any
) -> None:
    settings.OUTPUT_ALERT_AFTER_SEC = 900.0
    lab("PUT", "settings", {"rule_delay_sec": 0})
    walk(block)
    Request.objects.filter(pk=active.pk).update(status=ended)
    invalidate_outputs(workflow=active.workflow, actor="user:olga", reason="bad", now=timezone.now())
    faults({"service": "rucio", "method": "DELETE", "kind": "status", "status": 503, "times": None})
    advance_block(block.pk)
    tidy_up(now=timezone.now())
    assert not Alert.objects.exists()
    tidy_up(now=timezone.now() + timedelta(days=30))
    assert "503" in Alert.objects.get(request=active, kind="outputs_failing", closed_at=None).message
    faults()
    walk(block)
    tidy_up(now=timezone.now() + timedelta(days=30))
    assert not Alert.objects.filter(closed_at=None).exists()


def test_a_withdrawn_failing_block_raises_no_alert(
    active: Request, block: OutputBlock, faults: Faults, settings: Any
) -> None:
    settings.OUTPUT_ALERT_AFTER_SEC = 0.0
    faults(DOWN | {"status": 503})
    advance_block(block.pk)
    invalidate_outputs(workflow=active.workflow, actor="user:olga", reason="enough", now=timezone.now())
    faults()
    advance_block(block.pk)
    tidy_up(now=timezone.now())
    assert not Alert.objects.exists()
