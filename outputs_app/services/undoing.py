"""Withdrawal of outputs: superseded or invalidated. The sweep of blocks executes invalidations."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from dags_app.adapters import dbs
from dags_app.models import Workflow
from outputs_app.dataset_ownership import is_ours_alone
from outputs_app.models import OutputBlock, OutputDataset
from outputs_app.services.block_status import move_blocks
from outputs_app.states import ACCESS_TYPES, WITHDRAWN, BlockStatus, DatasetStatus
from wms2_project.access import audit


def supersede_outputs(*, workflow: Workflow, actor: str, reason: str, now: datetime) -> int:
    """Make datasets that a newer version replaced DEPRECATED in DBS; return how many.

    They stay readable and protected; only a person invalidates them. DBS is changed before the rows: after
    an error the datasets are still active, and the next call repeats it.
    """
    audit.need_reason(reason)
    active = OutputDataset.objects.filter(workflow=workflow, status=DatasetStatus.ACTIVE)
    datasets = list(active.order_by("dataset_name"))
    for dataset in datasets:
        _deprecate(dataset)
    with transaction.atomic():
        changed = active.update(status=DatasetStatus.SUPERSEDED, updated_at=now)
        _record("supersede_outputs", workflow, actor, reason, datasets=changed)
    for dataset in datasets:
        dataset.refresh_from_db()
        if dataset.status == DatasetStatus.INVALIDATED:  # meanwhile: DEPRECATED may have replaced INVALID
            _deprecate(dataset)
    return changed


def _deprecate(dataset: OutputDataset) -> None:
    """Change the dataset in DBS if it is registered, only WMS2's and not INVALID."""
    if not dataset.blocks.filter(dbs_registered_at__isnull=False).exists() or not is_ours_alone(dataset):
        return
    invalidated = dataset.status == DatasetStatus.INVALIDATED
    wanted = ACCESS_TYPES[DatasetStatus.INVALIDATED if invalidated else DatasetStatus.SUPERSEDED]
    info = dbs().dataset(dataset.dataset_name)
    if info is not None and info.access_type not in (wanted, "INVALID", "DELETED"):
        dbs().set_dataset_status(dataset.dataset_name, wanted)


def invalidate_outputs(*, workflow: Workflow, actor: str, reason: str, now: datetime) -> int:
    """Mark all datasets and blocks invalid; return the number of blocks.

    The sweep then makes the datasets INVALID in DBS and deletes their rules in Rucio.
    """
    with transaction.atomic():
        datasets = OutputDataset.objects.filter(workflow=workflow).exclude(status__in=sorted(WITHDRAWN))
        datasets.update(
            status=DatasetStatus.INVALIDATED, invalidated_at=now, invalidation_reason=reason, updated_at=now
        )
        changed = move_blocks(
            blocks=OutputBlock.objects.filter(dataset__workflow=workflow),
            to=BlockStatus.INVALIDATING,
            now=now,
            invalidation_reason=reason,
        )
        _record("invalidate_outputs", workflow, actor, reason, blocks=changed)
    return changed


def _record(action: str, workflow: Workflow, actor: str, reason: str, **counts: int) -> None:
    audit.record(actor=actor, action=action, target=workflow.request_name, reason=reason, **counts)
