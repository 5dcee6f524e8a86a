"""Announcement of datasets: they become VALID in DBS."""

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
    """Make the workflow's datasets VALID in DBS. The caller ensures that they are complete.

    DBS has a status per dataset only: if it were VALID with the first block, users would take a part for
    the whole. A dataset into which another workflow still writes waits for it: the last one to end
    announces it. `unfinished`: the workflows whose requests have not ended.
    """
    for dataset in _unannounced().filter(workflow=workflow):
        _announce(dataset, unfinished, now)


def announce_shared(*, completed: QuerySet[Any, Any], unfinished: QuerySet[Any, Any], now: datetime) -> None:
    """Announce datasets of completed requests that waited for other writers."""
    shared = DatasetClaim.objects.filter(HELD, is_owner=False).values("dataset_name")
    for dataset in _unannounced().filter(dataset_name__in=shared, workflow__in=completed):
        _announce(dataset, unfinished, now)


def _unannounced() -> QuerySet[OutputDataset]:
    usable = OutputDataset.objects.filter(status=DatasetStatus.ACTIVE, announced_at__isnull=True)
    return usable.order_by("dataset_name")


def _announce(dataset: OutputDataset, unfinished: QuerySet[Any, Any], now: datetime) -> None:
    """Change DBS, unless the dataset is in Rucio only, then the row.

    Datasets with blocks of other systems are not announced by WMS2.
    """
    own = DatasetClaim.objects.filter(workflow=dataset.workflow_id, dataset_name=dataset.dataset_name)
    if own.exclude(conflict="").exists() or awaited_writers(dataset=dataset, unfinished=unfinished):
        return
    if dataset.in_dbs:
        dbs().set_dataset_status(dataset.dataset_name, "VALID")
    announced = _unannounced().filter(pk=dataset.pk).update(announced_at=now, updated_at=now)
    if dataset.in_dbs and not announced and not is_shared(dataset=dataset):
        # Invalidated or superseded meanwhile: that change in DBS may have preceded this one.
        dataset.refresh_from_db()
        dbs().set_dataset_status(dataset.dataset_name, ACCESS_TYPES[DatasetStatus(dataset.status)])
