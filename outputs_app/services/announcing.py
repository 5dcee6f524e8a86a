"""Telling the world that datasets may be used."""

from __future__ import annotations

from datetime import datetime

from dags_app.adapters import dbs
from dags_app.models import Workflow
from outputs_app.models import OutputDataset
from outputs_app.selectors import is_shared
from outputs_app.states import ACCESS_TYPES, DatasetStatus


def announce_datasets(*, workflow: Workflow, now: datetime) -> None:
    """Make every dataset of the workflow VALID in DBS. For when nothing of them is still to come.

    DBS knows whole datasets only: made VALID with the first block, users would take a part for all of it.
    """
    usable = OutputDataset.objects.filter(workflow=workflow, status=DatasetStatus.ACTIVE)
    for dataset in usable.filter(announced_at__isnull=True).order_by("dataset_name"):
        dbs().set_dataset_status(dataset.dataset_name, "VALID")
        announced = usable.filter(pk=dataset.pk).update(announced_at=now, updated_at=now)
        if not announced and not is_shared(dataset=dataset):
            # Invalidated or superseded meanwhile; that may have come before our VALID.
            dataset.refresh_from_db()
            status = ACCESS_TYPES[DatasetStatus(dataset.status)]
            dbs().set_dataset_status(dataset.dataset_name, status)
