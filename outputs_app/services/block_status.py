"""The only writers of block statuses: one block by compare-and-set, or many at once."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from dags_app.models import Workflow
from outputs_app.models import OutputBlock, OutputFile
from outputs_app.pipeline import TRANSITIONS
from outputs_app.states import BlockStatus
from wms2_project.changes import Topic, announce, request_topic
from wms2_project.errors import IllegalTransition, StaleVersion


def move_block(*, block: OutputBlock, to: BlockStatus, **changes: Any) -> None:
    """Change the status as the table allows; raise StaleVersion if the block changed meanwhile."""
    current = BlockStatus(block.status)
    if to is current:
        return
    if to not in TRANSITIONS[current]:
        raise IllegalTransition(f"block {block.block_name} is {current} and cannot become {to}")
    change_block(block=block, status=to, status_since=timezone.now(), **changes)
    _announce(block.dataset.workflow)


def change_block(*, block: OutputBlock, **values: Any) -> None:
    """Change columns of a block in the status and version that the caller read, else raise StaleVersion."""
    unchanged = OutputBlock.objects.filter(pk=block.pk, status=block.status, version=block.version)
    values["version"] = block.version + 1
    if not unchanged.update(**values):
        raise StaleVersion(f"block {block.block_name} changed in the meantime", cure="Retried automatically")
    for name, value in values.items():
        setattr(block, name, value)


def check_again(*, workflow: Workflow, now: datetime) -> int:
    """Make the files of failed blocks be checked on the storage again. Return the number of blocks."""
    failed = OutputBlock.objects.filter(dataset__workflow=workflow, status=BlockStatus.FAILED)
    OutputFile.objects.filter(block__in=failed).exclude(check_problem="").update(
        checked_at=None, check_problem=""
    )
    _announce(workflow)
    return failed.update(
        status=BlockStatus.PENDING,
        status_since=now,
        next_check_at=now,
        attempt=0,
        last_error="",
        version=F("version") + 1,
    )


def move_blocks(*, blocks: QuerySet[OutputBlock], to: BlockStatus, now: datetime, **changes: Any) -> int:
    """Move all blocks for which the table allows it, close them and make them due. Return their number."""
    allowed = sorted(status for status, after in TRANSITIONS.items() if to in after)
    announce(Topic.OUTPUTS)
    return blocks.filter(status__in=allowed).update(
        status=to,
        status_since=now,
        closed_at=Coalesce("closed_at", now),
        next_check_at=now,
        attempt=0,
        version=F("version") + 1,
        **changes,
    )


def _announce(workflow: Workflow) -> None:
    announce(Topic.OUTPUTS, request_topic(workflow.request_name))
