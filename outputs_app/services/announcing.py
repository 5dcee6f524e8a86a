"""Telling the world that datasets may be used."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from dags_app.adapters import dbs
from dags_app.models import Workflow
from outputs_app.dataset_ownership import HELD, is_shared
from outputs_app.models import DatasetClaim, OutputDataset
from outputs_app.selectors import awaited_writers
from outputs_app.states import ACCESS_TYPES, DatasetStatus


def announce_datasets(*, workflow: Workflow, unfinished: QuerySet[Any, Any], now: datetime) -> None:
    """Make the datasets of the workflow VALID in DBS. For when nothing of them is still to come.

    DBS knows whole datasets only: made VALID with the first block, users would take a part for all of it. So
    a dataset into which another workflow still writes waits for that one: the last to end announces it.
    `unfinished`: the workflows whose requests have not ended.
    """
    for dataset in _unannounced().filter(workflow=workflow):
        _announce(dataset, unfinished, now)


def announce_shared(*, completed: QuerySet[Any, Any], unfinished: QuerySet[Any, Any], now: datetime) -> None:
    """Announce datasets of completed requests that waited for other writers, which have ended since."""
    shared = DatasetClaim.objects.filter(HELD, is_owner=False).values("dataset_name")
    for dataset in _unannounced().filter(dataset_name__in=shared, workflow__in=completed):
        _announce(dataset, unfinished, now)


def _unannounced() -> QuerySet[OutputDataset]:
    usable = OutputDataset.objects.filter(status=DatasetStatus.ACTIVE, announced_at__isnull=True)
    return usable.order_by("dataset_name")


def _announce(dataset: OutputDataset, unfinished: QuerySet[Any, Any], now: datetime) -> None:
    """Change DBS, then the row. A dataset that others made is theirs to announce."""
    own = DatasetClaim.objects.filter(workflow=dataset.workflow_id, dataset_name=dataset.dataset_name)
    if own.exclude(conflict="").exists() or awaited_writers(dataset=dataset, unfinished=unfinished):
        return
    dbs().set_dataset_status(dataset.dataset_name, "VALID")
    announced = _unannounced().filter(pk=dataset.pk).update(announced_at=now, updated_at=now)
    if not announced and not is_shared(dataset=dataset):
        # Invalidated or superseded meanwhile; that may have come before our VALID.
        dataset.refresh_from_db()
        dbs().set_dataset_status(dataset.dataset_name, ACCESS_TYPES[DatasetStatus(dataset.status)])
