"""Recording of merged files in blocks.

A group's files, its credit in the ledger and its new status are one transaction: either the group is
collected, or it is read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import F

from dags_app.models import MergeGroup, Workflow
from dags_app.services import ledger
from dags_app.states import GroupStatus
from outputs_app.models import OutputBlock, OutputDataset, OutputFile
from outputs_app.registered_notes import Note, notes_of_group
from outputs_app.services.block_status import change_block
from sandbox.manifest import GroupManifest, MergedFile

NOTED_BLOCK_WAIT_SEC = 3600  # for files of groups that are not collected yet


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFile:
    """A file to store in a block; lumis as `OutputFile` keeps them."""

    dataset: str
    lfn: str
    size_bytes: int
    adler32: str
    events: int | None  # None: not known
    lumis: list[list[int]]
    parents: list[str]
    site: str
    rse: str
    lumi_events: list[list[int]] = field(default_factory=list)
    lifetime_days: int | None = None  # None: for ever


def record_group(*, group: MergeGroup, manifest: GroupManifest, rse: str, now: datetime) -> bool:
    """Store a finished group's outputs; return False if they were stored before.

    Files that were registered before the database was restored go into the same blocks again.
    """
    notes = notes_of_group(group)
    with transaction.atomic(savepoint=False):
        locked = MergeGroup.objects.select_for_update().select_related("round").get(pk=group.pk)
        if locked.status == GroupStatus.COLLECTED:
            return False
        for file in manifest.outputs:
            recorded = _as_recorded(file, site=manifest.site, rse=rse)
            _store_noted(locked, recorded, now=now, in_dbs=True, note=notes.get(file.lfn))
        if manifest.log is not None:
            recorded = _as_recorded(manifest.log, site=manifest.site, rse=rse)
            _store_noted(locked, recorded, now=now, in_dbs=False, note=notes.get(manifest.log.lfn))
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


def _as_recorded(file: MergedFile, *, site: str, rse: str) -> RecordedFile:
    return RecordedFile(
        dataset=file.dataset,
        lfn=file.lfn,
        size_bytes=file.size_bytes,
        adler32=file.adler32,
        events=file.events,
        lumis=[[int(run), *part] for run, parts in file.lumis.items() for part in parts],
        lumi_events=[[int(run), *part] for run, parts in file.lumi_events.items() for part in parts],
        parents=list(file.parents),
        site=site,
        rse=rse,
    )


def record_files(*, workflow_id: UUID, group_id: int, files: Sequence[RecordedFile], now: datetime) -> None:
    """Store files that a runner confirmed. A dataset with files without event counts is in Rucio only."""
    for file in files:
        dataset = _dataset(workflow_id, file, in_dbs=file.events is not None)
        block = _open_block(dataset, site=file.site, rse=file.rse, now=now)
        _store(block, group_id, file)


def _store_noted(
    group: MergeGroup, file: RecordedFile, *, now: datetime, in_dbs: bool, note: Note | None
) -> None:
    """Store a file of a group, in the block that it was registered in before if there is a note of it."""
    dataset = _dataset(group.round.workflow_id, file, in_dbs=in_dbs)
    if note is None:
        _store(_open_block(dataset, site=file.site, rse=file.rse, now=now), group.pk, file)
        return
    block = _noted_block(dataset, note, site=file.site, rse=file.rse, now=now)
    _store(block, group.pk, file)
    if block.files.count() == note.files:
        OutputBlock.objects.filter(pk=block.pk).update(next_check_at=now)


def _dataset(workflow_id: UUID, file: RecordedFile, *, in_dbs: bool) -> OutputDataset:
    dataset, _ = OutputDataset.objects.get_or_create(
        workflow_id=workflow_id,
        dataset_name=file.dataset,
        defaults={"in_dbs": in_dbs, "lifetime_days": file.lifetime_days},
    )
    return dataset


def _store(block: OutputBlock, group_id: int, file: RecordedFile) -> None:
    OutputFile.objects.create(
        block=block,
        group_id=group_id,
        lfn=file.lfn,
        size_bytes=file.size_bytes,
        events=file.events or 0,
        adler32=file.adler32,
        lumis=file.lumis,
        lumi_events=file.lumi_events,
        parents=file.parents,
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
        name = f"{dataset.dataset_name}#{uuid4()}"
        block = OutputBlock.objects.create(
            dataset=dataset, site=site, rse=rse, block_name=name, next_check_at=now + linger
        )
    return block


def _noted_block(dataset: OutputDataset, note: Note, *, site: str, rse: str, now: datetime) -> OutputBlock:
    """Return the block of the note. It is closed and becomes due when all its files are stored."""
    later = now + timedelta(seconds=NOTED_BLOCK_WAIT_SEC)
    block, _ = OutputBlock.objects.get_or_create(
        block_name=note.block_name,
        defaults={"dataset": dataset, "site": site, "rse": rse, "closed_at": now, "next_check_at": later},
    )
    return block


def close_block(*, block: OutputBlock, now: datetime) -> None:
    """Close the block, so that it can be registered; raise StaleVersion if it changed meanwhile."""
    change_block(block=block, closed_at=now, next_check_at=now)


def close_blocks(*, workflow: Workflow, now: datetime) -> int:
    """Close all open blocks of the workflow; return how many."""
    still_open = OutputBlock.objects.filter(dataset__workflow=workflow, closed_at__isnull=True)
    return still_open.update(closed_at=now, next_check_at=now, version=F("version") + 1)
