"""Files registered before the database was restored go into the blocks that DBS and Rucio have."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from dags_app.models import MergeGroup, Round, Workflow
from dags_app.planning import names
from outputs_app.models import OutputBlock
from outputs_app.registered_notes import noted_blocks, write_notes
from outputs_app.services import close_blocks, record_group
from tests.integration.factories import make_group, make_round
from tests.integration.outputs.test_recording import manifest_of
from wms2_project.errors import PermanentError

pytestmark = pytest.mark.django_db
Directory = Callable[[MergeGroup], Path]


@pytest.fixture
def directory(settings: Any, tmp_path: Path) -> Directory:
    """Create the directory of a group."""
    settings.SUBMIT_ROOT = str(tmp_path)

    def made(group: MergeGroup) -> Path:
        dag = names.dag_id(str(group.round.workflow_id), round_number=group.round.number)
        path = tmp_path / str(dag) / group.name
        path.mkdir(parents=True, exist_ok=True)
        return path

    return made


@pytest.fixture
def registered(workflow: Workflow, directory: Directory) -> tuple[Round, list[str]]:
    """Return a round whose two groups were in one block each when the database was backed up."""
    workflow.output_datasets = workflow.output_datasets[:1]
    workflow.save()
    round_, blocks = make_round(workflow), []
    for index in range(2):
        group = make_group(round_, index=index)
        directory(group)
        record_group(group=group, manifest=manifest_of(group, site="T2_CH_CERN"), rse="R", now=timezone.now())
        close_blocks(workflow=workflow, now=timezone.now())
        block = OutputBlock.objects.latest("created_at")
        write_notes(block)
        blocks.append(block.block_name)
    forget_outputs(round_)
    return round_, blocks


def forget_outputs(round_: Round) -> None:
    """Bring the rows back to what they were before the groups were collected."""
    for block in OutputBlock.objects.all():
        block.files.all().delete()
        block.delete()
    round_.groups.update(status="done")


def test_files_go_into_the_blocks_they_were_registered_in(registered: tuple[Round, list[str]]) -> None:
    round_, blocks = registered
    now = timezone.now()
    for group in round_.groups.order_by("index"):
        record_group(group=group, manifest=manifest_of(group, site="T2_CH_CERN"), rse="R", now=now)
    found = OutputBlock.objects.order_by("files__group__index")
    assert [block.block_name for block in found] == blocks
    assert [(block.files.count(), block.closed_at, block.next_check_at) for block in found] == [
        (1, now, now)
    ] * 2


def test_a_block_waits_for_its_other_files(workflow: Workflow, directory: Directory) -> None:
    workflow.output_datasets = workflow.output_datasets[:1]
    workflow.save()
    round_ = make_round(workflow)
    groups = [make_group(round_, index=index) for index in range(2)]
    for group in groups:
        directory(group)
        record_group(group=group, manifest=manifest_of(group, site="T2_CH_CERN"), rse="R", now=timezone.now())
    write_notes(OutputBlock.objects.get())
    forget_outputs(round_)
    now = timezone.now()
    due = []
    for group in groups:
        record_group(group=group, manifest=manifest_of(group, site="T2_CH_CERN"), rse="R", now=now)
        due.append(OutputBlock.objects.get().next_check_at - now)
    assert due == [timedelta(hours=1), timedelta(0)]


def test_the_noted_blocks_are_the_workflows_own(registered: tuple[Round, list[str]]) -> None:
    round_, blocks = registered
    assert noted_blocks(round_.workflow_id) == frozenset(blocks)


def test_an_unreadable_note_is_named(registered: tuple[Round, list[str]], directory: Directory) -> None:
    round_, _ = registered
    group = round_.groups.get(index=0)
    (note,) = directory(group).glob("registered-*.json")
    note.write_text("{")
    with pytest.raises(PermanentError, match=note.name):
        record_group(group=group, manifest=manifest_of(group, site="T2_CH_CERN"), rse="R", now=timezone.now())
    assert not OutputBlock.objects.exists()
