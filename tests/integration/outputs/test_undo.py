"""Every status of a block can be undone, repeatedly: INVALID in DBS, no rule left in Rucio."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from dags_app.adapters import dbs
from dags_app.models import Workflow
from outputs_app.models import OutputBlock, OutputDataset, RucioRule
from outputs_app.pipeline import MOVING, PIPELINE, Step
from outputs_app.services import (
    advance_block,
    invalidate_outputs,
    move_block,
    supersede_outputs,
)
from outputs_app.states import BlockStatus, DatasetStatus
from outputs_app.steps import STEPS
from tests.integration.factories import make_workflow
from tests.integration.outputs.blocks import add_block, announce, walk
from tests.integration.outputs.conftest import Faults
from wms2_project.errors import InvalidInput
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
B = BlockStatus
ACTOR, REASON = "user:olga", "the calibration was wrong"


def invalidate(workflow: Workflow) -> int:
    return invalidate_outputs(workflow=workflow, actor=ACTOR, reason=REASON, now=timezone.now())


def rules_in_rucio(lab: Any, block: OutputBlock) -> list[Any]:
    """Return the rules that are not deleted."""
    rules = lab("GET", "state")["rucio"]["rules"]
    return [rule for rule in rules if rule["name"] == block.block_name and rule["expires_at"] is None]


def access_type(block: OutputBlock) -> str | None:
    found = dbs().dataset(block.dataset.dataset_name)
    return found.access_type if found else None


def stop_at(block: OutputBlock, status: BlockStatus, lab: Any) -> None:
    """Bring the block into the state by its real steps."""
    lab("PUT", "settings", {"rule_delay_sec": 3600 if status is B.TRANSFERRING else 0})
    for _ in range(10):
        if block.status == status:
            return
        step = PIPELINE[B(block.status)].step
        assert step is not None
        move_block(block=block, to=STEPS[step](block, timezone.now()))
    raise AssertionError(f"{status} was not reached")


@pytest.mark.usefixtures("subscribed")
@pytest.mark.parametrize("status", [*sorted(MOVING - {B.INVALIDATING}), B.ANNOUNCED])
def test_every_state_is_taken_back_completely(
    status: BlockStatus, block: OutputBlock, workflow: Workflow, lab: Any
) -> None:
    stop_at(block, status, lab)
    assert invalidate(workflow) == 1
    walk(block)
    assert (block.status, block.invalidation_reason) == (B.INVALIDATED, REASON)
    assert rules_in_rucio(lab, block) == []
    assert not block.rules.filter(deleted_at__isnull=True).exists()
    assert access_type(block) == (None if status in (B.PENDING, B.CHECKED) else "INVALID")


def test_no_subscription_undo_releases_the_source(block: OutputBlock, workflow: Workflow, lab: Any) -> None:
    walk(block)
    assert len(rules_in_rucio(lab, block)) == 1
    invalidate(workflow)
    walk(block)
    assert (access_type(block), rules_in_rucio(lab, block)) == ("INVALID", [])


def test_effects_that_a_crash_left_unrecorded_are_withdrawn_too(
    block: OutputBlock, workflow: Workflow, lab: Any
) -> None:
    stop_at(block, B.SOURCE_PROTECTED, lab)
    RucioRule.objects.filter(block=block).update(rule_id="")  # made and not recorded: the worker died
    OutputBlock.objects.filter(pk=block.pk).update(status=B.PENDING)
    invalidate(workflow)
    walk(block)
    assert (access_type(block), rules_in_rucio(lab, block)) == ("INVALID", [])


@pytest.mark.parametrize("service", ["dbs", "rucio"])
def test_an_undo_that_was_interrupted_is_resumed(
    service: str, block: OutputBlock, workflow: Workflow, lab: Any, faults: Faults
) -> None:
    walk(block)
    invalidate(workflow)
    assert invalidate(workflow) == 0
    faults({"service": service, "kind": "status", "status": 503, "times": None})
    advance_block(block.pk)
    block.refresh_from_db()
    assert (block.status, block.attempt) == (B.INVALIDATING, 1)
    faults()
    walk(block)
    assert block.status == B.INVALIDATED
    assert (access_type(block), rules_in_rucio(lab, block)) == ("INVALID", [])


def test_files_of_another_workflow_in_the_same_dataset_stay_usable(
    block: OutputBlock, workflow: Workflow
) -> None:
    other = add_block(make_workflow(input_dataset="", output_datasets=workflow.output_datasets))
    walk(block)
    walk(other)
    announce(other.dataset.workflow)
    invalidate(workflow)
    walk(block)
    assert access_type(block) == "VALID"
    assert (dbs().block_files(block.block_name), len(dbs().block_files(other.block_name))) == ([], 2)


def test_a_decision_made_while_a_step_runs_wins(
    block: OutputBlock, workflow: Workflow, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = STEPS[Step.PROTECT]

    def protect_while_an_operator_invalidates(block: OutputBlock, now: Any) -> BlockStatus:
        invalidate(workflow)
        return real(block, now)

    monkeypatch.setitem(STEPS, Step.PROTECT, protect_while_an_operator_invalidates)
    walk(block)
    assert block.status == B.INVALIDATED
    assert (block.attempt, rules_in_rucio(lab, block), access_type(block)) == (0, [], "INVALID")


def test_superseded_outputs_are_deprecated_and_stay_protected(
    block: OutputBlock, workflow: Workflow, lab: Any
) -> None:
    walk(block)
    announce(workflow)
    assert supersede_outputs(workflow=workflow, actor=ACTOR, reason="v2 is out", now=timezone.now()) == 1
    assert OutputDataset.objects.get(workflow=workflow).status == DatasetStatus.SUPERSEDED
    assert (access_type(block), len(rules_in_rucio(lab, block))) == ("DEPRECATED", 1)
    invalidate(workflow)
    walk(block)
    assert OutputDataset.objects.get(workflow=workflow).status == DatasetStatus.INVALIDATED
    assert (access_type(block), rules_in_rucio(lab, block)) == ("INVALID", [])


def test_taking_outputs_back_needs_a_reason_and_leaves_it_behind(workflow: Workflow) -> None:
    for action in (supersede_outputs, invalidate_outputs):
        with pytest.raises(InvalidInput):
            action(workflow=workflow, actor=ACTOR, reason=" ", now=timezone.now())
        action(workflow=workflow, actor=ACTOR, reason=REASON, now=timezone.now())
        assert AuditEvent.objects.get(action=action.__name__, target=workflow.request_name).actor == ACTOR
