"""Before a request is completed its outputs are compared with DBS and Rucio, and repaired on demand."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from dags_app.adapters import dbs, rucio
from dags_app.models import MergeGroup, Workflow
from lab.cms_world.server import World
from outputs_app.models import OutputBlock, OutputDataset
from outputs_app.services import find_differences, invalidate_outputs, repair_outputs
from requests_app.lifecycle.finishing import finish
from requests_app.lifecycle.outcome import Move, Outcome, Wait
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.states import RequestStatus
from tests.integration.factories import make_workflow
from tests.integration.outputs.blocks import DESTINATION, add_block, walk
from tests.integration.outputs.conftest import Faults
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db


@pytest.fixture
def announced(workflow: Workflow, lab: Any) -> list[OutputBlock]:
    lab("PUT", "settings", {"rule_delay_sec": 0})
    return [walk(add_block(workflow)) for _ in range(2)]


def forget(world: World, table: str, column: str, name: str) -> None:
    """Lose something in DBS or Rucio."""
    with world.store.transaction() as db:
        db.execute("PRAGMA defer_foreign_keys = ON")
        db.execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))  # noqa: S608


def differences(workflow: Workflow) -> list[str]:
    return [str(difference) for difference in find_differences(workflow=workflow)]


def repaired(workflow: Workflow) -> list[str]:
    """Repair the outputs and return what still differs."""
    left = repair_outputs(workflow=workflow, actor="user:olga", reason="lost", now=timezone.now())
    return [str(difference) for difference in left]


def test_matching_outputs_complete_the_request(announced: list[OutputBlock], workflow: Workflow) -> None:
    outcome = finish(Snapshot(Request.objects.get(workflow=workflow), timezone.now()))
    assert isinstance(outcome, Move)
    assert (outcome.to, differences(workflow)) == (RequestStatus.COMPLETED, [])


def look_again(workflow: Workflow) -> Outcome:
    return finish(Snapshot(Request.objects.get(workflow=workflow), timezone.now()))


def test_a_comparison_too_long_for_one_task_continues_where_it_ended(
    workflow: Workflow, lab: Any, settings: Any
) -> None:
    settings.COMPARE_LOOK_SEC = 0.0  # one block per look
    lab("PUT", "settings", {"rule_delay_sec": 0})
    for _ in range(3):
        walk(add_block(workflow))
    outcomes = [look_again(workflow) for _ in range(3)]
    assert [one.why.split()[-3] if isinstance(one, Wait) else one.to for one in outcomes] == [
        "2",
        "1",
        "completed",
    ]


def test_outputs_compared_before_a_hold_are_compared_again_after_it(
    announced: list[OutputBlock], workflow: Workflow
) -> None:
    assert isinstance(look_again(workflow), Move)
    Request.objects.filter(workflow=workflow).update(status_since=timezone.now())  # held, then released
    rucio().delete_rule(announced[0].rules.get().rule_id)
    outcome = look_again(workflow)
    assert isinstance(outcome, Move)
    assert outcome.to == RequestStatus.HELD


@pytest.mark.usefixtures("subscribed")
def test_a_copy_that_hangs_after_its_source_was_released_is_a_difference(
    announced: list[OutputBlock], workflow: Workflow, lab: Any
) -> None:
    name = announced[0].block_name
    lab("PUT", "rules", {"name": name, "rse_expression": DESTINATION, "from": "OK", "to": "STUCK"})
    expected = [f"Rucio, {name}: rule at {DESTINATION} STUCK, expected OK"]
    assert differences(workflow) == expected
    assert repaired(workflow) == expected


@pytest.mark.usefixtures("subscribed")
def test_a_repair_does_not_call_a_new_rule_a_copy(
    announced: list[OutputBlock], workflow: Workflow, world: World, lab: Any
) -> None:
    block = announced[0]
    forget(world, "rucio_rules", "name", block.block_name)
    for file in block.files.all():
        forget(world, "rucio_replicas", "lfn", file.lfn)
    lab("PUT", "settings", {"rule_delay_sec": 3600})
    assert repaired(workflow) == [
        f"Rucio, {block.block_name}: rule at {DESTINATION} REPLICATING, expected OK"
    ]


def test_wrong_counts_hold_with_the_list(
    announced: list[OutputBlock], workflow: Workflow, faults: Faults
) -> None:
    faults({"service": "dbs", "path_regex": "filesummaries", "kind": "wrong_counts", "times": None})
    outcome = finish(Snapshot(Request.objects.get(workflow=workflow), timezone.now()))
    assert isinstance(outcome, Move)
    assert outcome.to == RequestStatus.HELD
    listed = outcome.changes["hold_evidence"]["differences"]
    name = announced[0].block_name
    assert [line for line in listed if name in line] == [
        f"DBS, {name}: files 3, expected 2",
        f"DBS, {name}: bytes 2002, expected 2001",
        f"DBS, {name}: events 21, expected 20",
        f"DBS, {name}: lumis 11, expected 10",
    ]


def test_a_block_lost_in_dbs_is_found_and_registered_again(
    announced: list[OutputBlock], workflow: Workflow, world: World
) -> None:
    block = announced[0]
    for file in block.files.all():
        forget(world, "dbs_lumis", "lfn", file.lfn)
        forget(world, "dbs_files", "lfn", file.lfn)
    forget(world, "dbs_blocks", "name", block.block_name)
    assert differences(workflow) == [f"DBS, {block.block_name}: files none, expected 2"]
    assert repair_outputs(workflow=workflow, actor="user:olga", reason="lost", now=timezone.now()) == []
    assert len(dbs().block_files(block.block_name)) == 2
    assert AuditEvent.objects.get(action="repair_outputs").detail["differences"]


def test_a_deleted_rule_is_found_and_created_again(announced: list[OutputBlock], workflow: Workflow) -> None:
    rule_id = announced[0].rules.get().rule_id
    rucio().delete_rule(rule_id)
    assert differences(workflow) == [
        f"Rucio, {announced[0].block_name}: rule at T1_US_FNAL_Disk none, expected one"
    ]
    assert repair_outputs(workflow=workflow, actor="user:olga", reason="lost", now=timezone.now()) == []
    rule = rucio().rule(announced[0].rules.get().rule_id)
    assert rule is not None
    assert rule.expires_at is None


def test_a_file_lost_in_rucio_is_found(
    announced: list[OutputBlock], workflow: Workflow, world: World
) -> None:
    forget(world, "rucio_contents", "parent", announced[1].block_name)
    assert differences(workflow) == [
        f"Rucio, {announced[1].block_name}: files 0, expected 2",
        f"Rucio, {announced[1].block_name}: bytes 0, expected 2001",
    ]


def test_a_group_whose_files_never_came_is_found(announced: list[OutputBlock], workflow: Workflow) -> None:
    lost = MergeGroup.objects.filter(round__workflow=workflow).latest("index")
    lost.outputs.all().delete()
    assert any("WMS2 database" in line for line in differences(workflow))


def test_another_workflow_in_the_same_dataset_is_no_difference(
    announced: list[OutputBlock], workflow: Workflow
) -> None:
    walk(add_block(make_workflow(input_dataset="", output_datasets=workflow.output_datasets)))
    assert differences(workflow) == []


def test_invalidated_outputs_are_compared_too(announced: list[OutputBlock], workflow: Workflow) -> None:
    invalidate_outputs(workflow=workflow, actor="user:olga", reason="bad", now=timezone.now())
    for block in announced:
        walk(block)
    assert differences(workflow) == []
    dbs().set_dataset_status(workflow.output_datasets[0], "VALID")
    assert differences(workflow) == [
        f"DBS, {workflow.output_datasets[0]}: access type VALID, expected INVALID"
    ]


def test_the_command_reports_and_repairs(
    announced: list[OutputBlock], workflow: Workflow, capsys: pytest.CaptureFixture[str]
) -> None:
    rucio().delete_rule(announced[0].rules.get().rule_id)
    with pytest.raises(CommandError, match="differences: 1; restore them with --repair") as differing:
        call_command("reconcile", workflow.request_name)
    assert differing.value.returncode == 1
    assert announced[0].block_name in capsys.readouterr().out
    call_command("reconcile", workflow.request_name, "--repair", "--reason", "a rule was lost")
    output = capsys.readouterr().out
    assert "agree with the WMS2 database" in output
    assert f"compared: {len(announced)} block" in output
    with pytest.raises(CommandError, match="no request") as unknown:
        call_command("reconcile", "unknown_v1")
    assert unknown.value.returncode == 2


def test_a_rule_with_a_lifetime_is_made_once_and_may_run_out(
    workflow: Workflow, lab: Any, world: World
) -> None:
    lab("PUT", "settings", {"rule_delay_sec": 0})
    block = add_block(workflow)
    OutputDataset.objects.update(lifetime_days=30)
    walk(block)
    source = block.rules.get(kind="source")
    rule = rucio().rule(source.rule_id)
    assert rule is not None
    assert rule.expires_at is not None
    rucio().delete_rule(source.rule_id)
    assert repaired(workflow) == differences(workflow) == []
    assert block.rules.get(kind="source").rule_id == source.rule_id
