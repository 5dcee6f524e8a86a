"""Steps of a block: tiers, polls, rules in every state, and repeated failures."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from kombu import Connection, Queue
from rest_framework.test import APIClient

from dags_app.adapters import rucio, use_adapters
from dags_app.models import Workflow
from outputs_app.models import OutputBlock, RucioRule
from outputs_app.pipeline import PIPELINE, RATE_LIMIT_PATIENCE_SEC, RATE_LIMIT_RETRY_SEC, Step, Tier
from outputs_app.selectors import unannounced
from outputs_app.services import advance_block, invalidate_outputs
from outputs_app.states import BlockStatus
from outputs_app.steps import STEPS, release_source
from requests_app import tasks
from requests_app.lifecycle import due, handlers
from requests_app.lifecycle.due import PRIORITIES, claim_blocks
from requests_app.lifecycle.finishing import watch_outputs
from requests_app.lifecycle.maintenance import tidy_up
from requests_app.lifecycle.outcome import Move, Wait
from requests_app.models import Alert, Request, StatusTransition
from requests_app.states import TERMINAL, RequestStatus
from tests.integration.outputs.blocks import DESTINATION, add_block, walk
from tests.integration.outputs.conftest import Faults
from tests.stand_in import Overridden
from wms2_project.errors import RateLimited
from wms2_project.service_guards import Turn, current_turn

pytestmark = pytest.mark.django_db
B = BlockStatus
DOWN = {"service": "rucio", "method": "POST", "path_regex": "/replicas", "kind": "status", "times": None}


def rule_states(lab: Any, block: OutputBlock, **change: str) -> None:
    assert lab("PUT", "rules", {"name": block.block_name, **change})["changed"] == 1


def test_what_is_urgent_is_handed_out_first(
    workflow: Workflow, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SWEEP_BATCH = 3
    monkeypatch.setattr(due, "queue_lengths", lambda priority: {})
    polled, requested, pending = (add_block(workflow, files=0) for _ in range(3))
    later = add_block(workflow, files=0)
    long_ago = timezone.now() - timedelta(hours=1)
    for block, status in ((polled, B.TRANSFERRING), (requested, B.SOURCE_PROTECTED), (later, B.TRANSFERRING)):
        OutputBlock.objects.filter(pk=block.pk).update(status=status, next_check_at=long_ago)
    claimed = [(claim.id, tier) for claim, tier in claim_blocks()]
    assert claimed[:2] == [(pending.pk, Tier.PROTECT), (requested.pk, Tier.REQUEST)]
    assert (len(claimed), claimed[2][1]) == (3, Tier.POLL)


def test_in_the_queue_a_poll_waits_behind_everything_else(settings: Any) -> None:
    queue = f"test-outputs-{timezone.now().timestamp()}"
    with Connection(settings.CELERY_BROKER_URL) as connection:
        bound = Queue(queue)(connection)
        bound.declare()
        with connection.Producer() as producer, producer.batch():
            for tier in (Tier.POLL, Tier.REQUEST, Tier.PROTECT):
                producer.publish(
                    {"tier": tier}, routing_key=queue, priority=PRIORITIES[tier], serializer="json"
                )
        received: list[int] = []
        with connection.Consumer(bound, callbacks=[lambda body, _message: received.append(body["tier"])]):
            for _ in range(3):
                connection.drain_events(timeout=60)
        bound.delete()
    assert received == [Tier.PROTECT, Tier.REQUEST, Tier.POLL]


def test_the_sweep_sends_each_block_with_the_priority_of_its_tier(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    polled, pending = add_block(workflow, files=0), add_block(workflow, files=0)
    OutputBlock.objects.filter(pk=polled.pk).update(status=B.TRANSFERRING)
    Request.objects.update(next_check_at=timezone.now() + timedelta(hours=1))
    sent: dict[str, int] = {}
    monkeypatch.setattr(
        tasks.advance_block,
        "apply_async",
        lambda args, queue, priority, producer: sent.update({args[0]: priority}),
    )
    tasks.sweep()
    assert sent == {str(pending.pk): PRIORITIES[Tier.PROTECT], str(polled.pk): PRIORITIES[Tier.POLL]}


@pytest.mark.usefixtures("subscribed")
def test_however_often_it_is_delivered_a_poll_happens_once_per_interval(
    block: OutputBlock, lab: Any, settings: Any
) -> None:
    settings.TRANSFER_POLL_INTERVAL_SEC = 300.0
    lab("PUT", "settings", {"rule_delay_sec": 3600})
    walk(block, looks=4)
    first = block.last_transfer_check
    assert (block.status, first is not None) == (B.TRANSFERRING, True)
    for _ in range(3):
        advance_block(block.pk)
    block.refresh_from_db()
    assert block.last_transfer_check == first
    assert timedelta(seconds=290) < block.next_check_at - timezone.now() <= timedelta(seconds=300)


@pytest.mark.usefixtures("subscribed")
def test_replicating_then_stuck_then_boosted_then_there(
    block: OutputBlock, workflow: Workflow, lab: Any
) -> None:
    lab("PUT", "settings", {"rule_delay_sec": 3600})
    walk(block, looks=4)
    rule = block.rules.get(kind="transfer")
    assert (block.status, rule.state) == (B.TRANSFERRING, "REPLICATING")
    rule_states(lab, block, **{"from": "REPLICATING", "to": "STUCK"})
    advance_block(block.pk)
    rule.refresh_from_db()
    assert (rule.state, bool(rule.error), rule.state_since is not None) == ("STUCK", True, True)
    assert f"Rucio rule {rule.rule_id} to {DESTINATION} STUCK since" in unannounced(workflow=workflow)
    seen = rucio().rule(rule.rule_id)
    assert seen is not None
    assert seen.state == "REPLICATING"  # boosted
    lab("PUT", "settings", {"rule_delay_sec": 0})
    rule_states(lab, block, **{"from": "REPLICATING", "to": "REPLICATING"})
    walk(block)
    assert (block.status, block.rules.get(kind="transfer").state) == (B.ANNOUNCED, "OK")


@pytest.mark.usefixtures("subscribed")
def test_a_suspended_rule_is_reported_and_continues_when_released(block: OutputBlock, lab: Any) -> None:
    lab("PUT", "settings", {"rule_delay_sec": 3600})
    walk(block, looks=4)
    rule_states(lab, block, **{"from": "REPLICATING", "to": "SUSPENDED"})
    advance_block(block.pk)
    block.refresh_from_db()
    assert (block.status, block.attempt) == (B.TRANSFERRING, 1)
    assert "suspended" in block.last_error
    lab("PUT", "settings", {"rule_delay_sec": 0})
    rule_states(lab, block, **{"from": "SUSPENDED", "to": "REPLICATING"})
    assert walk(block).status == B.ANNOUNCED


@pytest.mark.usefixtures("subscribed")
def test_a_removed_transfer_rule_is_created_again(block: OutputBlock, lab: Any) -> None:
    lab("PUT", "settings", {"rule_delay_sec": 3600})
    walk(block, looks=4)
    block.rules.filter(kind="transfer").update(rule_id="0" * 32)
    lab("PUT", "settings", {"rule_delay_sec": 0})
    rule_states(lab, block, **{"from": "REPLICATING", "to": "REPLICATING"})
    assert walk(block).status == B.ANNOUNCED
    assert block.rules.get(kind="transfer").rule_id != "0" * 32


def given_up(rule: RucioRule) -> bool:
    seen = rucio().rule(rule.rule_id)
    return seen is None or seen.expires_at is not None


@pytest.mark.usefixtures("subscribed")
def test_a_copy_whose_rule_was_deleted_under_way_does_not_count(block: OutputBlock, lab: Any) -> None:
    lab("PUT", "settings", {"rule_delay_sec": 3600})
    walk(block, looks=4)
    rucio().delete_rule(block.rules.get(kind="transfer").rule_id)
    lab("PUT", "settings", {"rule_delay_sec": 0})
    rule_states(lab, block, **{"from": "REPLICATING", "to": "REPLICATING"})  # OK at the next look
    advance_block(block.pk)
    block.refresh_from_db()
    assert block.status == B.TRANSFERRING
    assert walk(block).status == B.ANNOUNCED
    assert not given_up(block.rules.get(kind="transfer"))


@pytest.mark.usefixtures("subscribed")
@pytest.mark.parametrize("released", [False, True])  # True: we died before we could note the release
def test_the_source_is_kept_when_a_copy_was_lost_before_its_release(
    released: bool, block: OutputBlock, lab: Any
) -> None:
    lab("PUT", "settings", {"rule_delay_sec": 0})
    walk(block, until=B.TRANSFERRED)
    if released:
        release_source(block, timezone.now())
    rucio().delete_rule(block.rules.get(kind="transfer").rule_id)
    advance_block(block.pk)
    block.refresh_from_db()
    assert block.status == B.TRANSFERRING
    assert not any(given_up(rule) for rule in block.rules.all())
    assert walk(block).status == B.ANNOUNCED
    assert {rule.kind: given_up(rule) for rule in block.rules.all()} == {"source": True, "transfer": False}


@pytest.mark.usefixtures("subscribed")
def test_waiting_for_the_next_poll_does_not_end_a_row_of_errors(
    block: OutputBlock, lab: Any, faults: Faults, settings: Any
) -> None:
    settings.TRANSFER_POLL_INTERVAL_SEC = 300.0
    lab("PUT", "settings", {"rule_delay_sec": 3600})
    walk(block, until=B.TRANSFERS_REQUESTED)
    faults({"service": "rucio", "path_regex": "/rules/", "kind": "status", "status": 503, "times": None})
    advance_block(block.pk)
    block.refresh_from_db()
    since = block.failing_since
    assert since is not None
    advance_block(block.pk)
    block.refresh_from_db()
    assert (block.failing_since, block.attempt, "503" in block.last_error) == (since, 1, True)
    assert block.next_check_at - timezone.now() > timedelta(seconds=250)


def test_no_subscription_leaves_the_block_at_its_source_protected_and_announced(block: OutputBlock) -> None:
    walk(block)
    rule = rucio().rule(block.rules.get().rule_id)
    assert rule is not None
    assert (block.status, rule.state, rule.expires_at) == (B.ANNOUNCED, "OK", None)


@pytest.mark.parametrize("copies", [2, "*"])
def test_a_subscription_for_two_copies_gets_two_before_the_source_is_released(
    copies: int | str, block: OutputBlock, subscribe: Any, lab: Any
) -> None:
    lab("PUT", "settings", {"rule_delay_sec": 0})
    subscribe(f"{DESTINATION}|T2_CH_CERN", copies)
    walk(block)
    assert (block.status, block.rules.get(kind="transfer").copies) == (B.ANNOUNCED, 2)
    for storages in rucio().replicas([file.lfn for file in block.files.all()]).values():
        assert {DESTINATION, "T2_CH_CERN"} <= set(storages)


@pytest.mark.usefixtures("subscribed")
def test_a_subscription_for_tape_archives_the_block(
    block: OutputBlock, workflow: Workflow, subscribe: Any, lab: Any, viewer: APIClient, console: Client
) -> None:
    def archived() -> int:
        answer = viewer.get(f"/api/v1/workflows/{workflow.pk}/status")
        return int(answer.data["outputs"][0]["blocks_archived"])

    subscribe("rse_type=TAPE")
    lab("PUT", "settings", {"rule_delay_sec": 3600})
    walk(block, looks=4)
    lab("PUT", "settings", {"rule_delay_sec": 0})
    change = {"from": "REPLICATING", "to": "REPLICATING"}
    rule_states(lab, block, rse_expression=DESTINATION, **change)
    walk(block, looks=2)
    kept = dict(block.rules.values_list("kind", "state"))
    assert (block.status, kept["transfer"], kept["tape"]) == (B.TRANSFERRING, "OK", "REPLICATING")
    assert archived() == 0

    rule_states(lab, block, rse_expression="rse_type=TAPE", **change)
    walk(block)
    assert (block.status, block.rules.get(kind="tape").state, archived()) == (B.ANNOUNCED, "OK", 1)
    page = console.get(reverse("admin:outputs_app_outputblock_change", args=[block.pk]))
    assert "rse_type=TAPE" in page.content.decode()


@pytest.mark.usefixtures("subscribed")
def test_a_workflow_with_five_output_datasets_announces_all(workflow: Workflow, lab: Any) -> None:
    lab("PUT", "settings", {"rule_delay_sec": 0})
    base = workflow.output_datasets[0]
    tiers = ["AOD", "MINIAOD", "NANOAOD", "DQMIO", "ALCARECO"]
    datasets = [base.replace("/AOD", f"/{tier}") for tier in tiers]
    blocks = [walk(add_block(workflow, dataset=dataset)) for dataset in datasets]
    assert {block.status for block in blocks} == {B.ANNOUNCED}
    assert all(DESTINATION in [rule.rse_expression for rule in block.rules.all()] for block in blocks)


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
