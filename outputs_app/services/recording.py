"""Recording of merged files in blocks.

A group's files, its credit in the ledger and its new status are one transaction: either the group is
collected, or it is read again.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F

from dags_app.models import MergeGroup, Workflow
from dags_app.services import ledger
from dags_app.states import GroupStatus
from outputs_app.models import OutputBlock, OutputDataset, OutputFile
from sandbox.manifest import GroupManifest, MergedFile


def record_group(*, group: MergeGroup, manifest: GroupManifest, rse: str, now: datetime) -> bool:
    """Store a finished group's outputs; return False if they were stored before."""
    with transaction.atomic():
        locked = MergeGroup.objects.select_for_update().select_related("round").get(pk=group.pk)
        if locked.status == GroupStatus.COLLECTED:
            return False
        for file in manifest.outputs:
            _store_file(locked, file, site=manifest.site, rse=rse, now=now)
        locked.status, locked.last_error = GroupStatus.COLLECTED, ""
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
        lumis=[[int(run), *part] for run, parts in file.lumis.items() for part in parts],
        lumi_events=[[int(run), *part] for run, parts in file.lumi_events.items() for part in parts],
        parents=list(file.parents),
    )


def _open_block(dataset: OutputDataset, *, site: str, rse: str, now: datetime) -> OutputBlock:
    """Return the open block for files of this dataset at this site; close a full one first."""
    block = (
        OutputBlock.objects.select_for_update()
        .filter(dataset=dataset, site=site, closed_at__isnull=True)
        .first()
    )
    if block is not None and block.files.count() >= settings.BLOCK_MAX_FILES:
        close_block(block=block, now=now)
        block = None
    if block is None:
        linger = timedelta(seconds=settings.BLOCK_LINGER_SEC)
        name = f"{dataset.dataset_name}#{uuid.uuid4()}"
        block = OutputBlock.objects.create(
            dataset=dataset, site=site, rse=rse, block_name=name, next_check_at=now + linger
        )
    return block


def close_block(*, block: OutputBlock, now: datetime) -> None:
    """Close the block, so that it can be registered."""
    OutputBlock.objects.filter(pk=block.pk, closed_at__isnull=True).update(
        closed_at=now, next_check_at=now, version=F("version") + 1
    )
    block.refresh_from_db()


def close_blocks(*, workflow: Workflow, now: datetime) -> int:
    """Close all open blocks of the workflow; return how many."""
    still_open = OutputBlock.objects.filter(dataset__workflow=workflow, closed_at__isnull=True)
    return still_open.update(closed_at=now, next_check_at=now, version=F("version") + 1)
