"""Outputs: merged files into blocks, blocks through the pipeline. Nothing is registered twice or lost.

A group's files, its credit in the ledger and its new status are one transaction: either the group is
collected, or it will be read again.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Sum
from django.utils import timezone

from dags_app.models import MergeGroup, Workflow
from dags_app.services import ledger
from dags_app.states import GroupStatus
from outputs_app.models import OutputBlock, OutputDataset, OutputFile
from outputs_app.pipeline import NEXT_STEP, Step
from outputs_app.states import MOVING, TRANSITIONS, BlockStatus
from outputs_app.steps import STEPS
from sandbox.manifest import GroupManifest, MergedFile
from wms2_project.errors import IllegalTransition, Wms2Error
from wms2_project.leases import backoff_seconds, release, working_on
from wms2_project.locks import try_lock
from wms2_project.logs import bind

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OutputSummary:
    """What a workflow has produced so far."""

    files: int
    events: int
    blocks: int
    announced: int


def record_group(*, group: MergeGroup, manifest: GroupManifest, rse: str, now: datetime) -> bool:
    """Take a finished group's outputs into our tables; False if they were there already."""
    with transaction.atomic():
        locked = MergeGroup.objects.select_for_update().select_related("round").get(pk=group.pk)
        if locked.status == GroupStatus.COLLECTED:
            return False
        for file in manifest.outputs:
            _store_file(locked, file, site=manifest.site, rse=rse, now=now)
        locked.status = GroupStatus.COLLECTED
        locked.site = manifest.site
        locked.events_read, locked.events_written = manifest.events_read, manifest.events_written
        locked.metrics = asdict(manifest.metrics) | {
            "pilot": asdict(manifest.pilot) if manifest.pilot is not None else None
        }
        locked.finished_at = locked.finished_at or now
        locked.save()
        ledger.credit_group(group=locked)
    return True


def _store_file(group: MergeGroup, file: MergedFile, *, site: str, rse: str, now: datetime) -> None:
    workflow_id = group.round.workflow_id
    dataset, _ = OutputDataset.objects.get_or_create(workflow_id=workflow_id, dataset_name=file.dataset)
    block = _open_block(dataset, site=site, rse=rse, now=now)
    OutputFile.objects.create(
        block=block,
        group=group,
        lfn=file.lfn,
        size_bytes=file.size_bytes,
        events=file.events,
        adler32=file.adler32,
        lumis=[[int(run), first, last] for run, parts in file.lumis.items() for first, last in parts],
        parents=list(file.parents),
    )


def _open_block(dataset: OutputDataset, *, site: str, rse: str, now: datetime) -> OutputBlock:
    """The block that takes files of this dataset at this site now; a full one is closed first."""
    block = (
        OutputBlock.objects.select_for_update()
        .filter(dataset=dataset, site=site, closed_at__isnull=True)
        .first()
    )
    if block is not None and block.files.count() >= settings.BLOCK_MAX_FILES:
        _close(block, now)
        block = None
    if block is None:
        linger = timedelta(seconds=settings.BLOCK_LINGER_SEC)
        name = f"{dataset.dataset_name}#{uuid.uuid4()}"
        block = OutputBlock.objects.create(
            dataset=dataset, site=site, rse=rse, block_name=name, next_check_at=now + linger
        )
    return block


def _close(block: OutputBlock, now: datetime) -> None:
    OutputBlock.objects.filter(pk=block.pk, closed_at__isnull=True).update(
        closed_at=now, next_check_at=now, version=F("version") + 1
    )


def close_blocks(*, workflow: Workflow, now: datetime) -> int:
    """No more files will come: whatever block is still open is complete."""
    still_open = OutputBlock.objects.filter(dataset__workflow=workflow, closed_at__isnull=True)
    return still_open.update(closed_at=now, next_check_at=now, version=F("version") + 1)


def unannounced(*, workflow: Workflow) -> str:
    """Which blocks are still on their way, in words; empty when all are announced."""
    rows = OutputBlock.objects.filter(dataset__workflow=workflow).exclude(status=BlockStatus.ANNOUNCED)
    counts = rows.values("status").annotate(count=Count("id")).order_by("status")
    told = ", ".join(f"{row['count']} {row['status']}" for row in counts)
    return f"blocks not announced yet: {told}" if told else ""


def summary(*, workflow: Workflow) -> OutputSummary:
    """Counts of files, events and blocks."""
    files = OutputFile.objects.filter(block__dataset__workflow=workflow)
    blocks = OutputBlock.objects.filter(dataset__workflow=workflow)
    totals = files.aggregate(files=Count("id"), events=Sum("events"))
    return OutputSummary(
        files=totals["files"],
        events=totals["events"] or 0,
        blocks=blocks.count(),
        announced=blocks.filter(status=BlockStatus.ANNOUNCED).count(),
    )


def advance_block(block_id: UUID | str) -> None:
    """Take one block as far as it will go now. At most one worker at a time works on a block."""
    with try_lock(f"block {block_id}") as held:
        if not held:
            return
        block = OutputBlock.objects.select_related("dataset__workflow").get(pk=block_id)
        with bind(request=block.dataset.workflow.request_name, block=block.block_name), working_on(block):
            try:
                wait = _walk(block)
            except Wms2Error as error:
                logger.warning("%s: %s", type(error).__name__, error)
                _record_error(block, error)
            else:
                release(block, seconds=wait, attempt=0, last_error="")


def _walk(block: OutputBlock) -> float:
    """Do step after step until the block must wait; answer for how many seconds."""
    while block.status in MOVING:
        if block.closed_at is None and not _linger_is_over(block):
            return float(settings.POLL_INTERVAL_SEC)
        step = NEXT_STEP[BlockStatus(block.status)]
        reached = STEPS[step](block, timezone.now())
        move_block(block=block, to=reached)
        if step is Step.POLL_TRANSFERS and reached is BlockStatus.TRANSFERRING:
            return float(settings.TRANSFER_POLL_INTERVAL_SEC)
    return 0.0


def _linger_is_over(block: OutputBlock) -> bool:
    """Close the block if it has waited long enough for company."""
    now = timezone.now()
    if now < block.created_at + timedelta(seconds=settings.BLOCK_LINGER_SEC):
        return False
    _close(block, now)
    block.refresh_from_db()
    return True


def move_block(*, block: OutputBlock, to: BlockStatus) -> None:
    """The only writer of a block's status: a step of the table, compare-and-set on the version."""
    current = BlockStatus(block.status)
    if to is current:
        return
    if to not in TRANSITIONS[current]:
        raise IllegalTransition(f"block {block.block_name} is {current} and cannot become {to}")
    unchanged = OutputBlock.objects.filter(pk=block.pk, status=current, version=block.version)
    if not unchanged.update(status=to, status_since=timezone.now(), version=F("version") + 1):
        raise IllegalTransition(f"block {block.block_name} changed meanwhile", cure="It is looked at again")
    block.refresh_from_db()


def _record_error(block: OutputBlock, error: Wms2Error) -> None:
    attempt = block.attempt + 1
    release(
        block,
        seconds=backoff_seconds(attempt),
        attempt=attempt,
        last_error=str(error)[:4000],
        last_error_at=timezone.now(),
    )
