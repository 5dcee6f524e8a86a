"""Steps of a block: tiers, polls, rules in every state, and repeated failures."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from kombu import Connection, Queue
from rest_framework.test import APIClient

from dags_app.adapters import rucio
from dags_app.models import Workflow
from outputs_app.models import OutputBlock, RucioRule
from outputs_app.pipeline import Tier
from outputs_app.selectors import unannounced
from outputs_app.services import advance_block
from outputs_app.states import BlockStatus
from outputs_app.steps import release_source
from requests_app import tasks
from requests_app.lifecycle import due
from requests_app.lifecycle.due import PRIORITIES, claim_blocks
from requests_app.models import Request
from tests.integration.outputs.blocks import DESTINATION, add_block, walk
from tests.integration.outputs.conftest import Faults

pytestmark = pytest.mark.django_db
B = BlockStatus
DOWN = {"service": "rucio", "method": "POST", "path_regex": "/replicas", "kind": "status", "times": None}


def rule_states(lab: Any, block: OutputBlock, **change: str) -> None:
    assert lab("PUT", "rules", {"name": block.block_name, **change})["changed"] == 1


def test_urgent_blocks_are_claimed_first(
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
@pytest.mark.parametrize("released", [False, True])  # True: the worker died before the release was recorded
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
