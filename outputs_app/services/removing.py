"""Removal of datasets that are no longer needed. The sweep of blocks executes it."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from outputs_app.models import OutputBlock, OutputDataset
from outputs_app.selectors import removal_of
from outputs_app.services.block_status import move_blocks
from outputs_app.services.dataset_claims import lock_datasets
from outputs_app.states import WITHDRAWN, BlockStatus, DatasetStatus
from wms2_project.access import audit
from wms2_project.errors import Conflict


def remove_dataset(
    *, dataset_name: str, actor: str, reason: str, now: datetime, only_rules: bool = False
) -> int:
    """Request the removal of a dataset: DELETED in DBS, rules removed in Rucio. Return the number of blocks.

    `only_rules`: delete the rules and leave DBS as it is. Only complete datasets whose every block WMS2 has
    registered are removed; otherwise raise Conflict. The caller ensures that nothing reads the dataset: see
    `requests_app.selectors.requests.unfinished_readers`. A repeated call changes nothing and returns 0.
    `selectors.removal_of` shows the effect before, and afterwards whether the sweep has finished.
    """
    audit.need_reason(reason)
    with transaction.atomic():
        lock_datasets([dataset_name])
        planned = removal_of(dataset_name=dataset_name)
        if planned.requested:
            return 0
        if planned.obstacle:
            raise Conflict(f"{dataset_name} is not removed: {planned.obstacle}", cure="Keep the dataset")
        status = DatasetStatus.RELEASED if only_rules else DatasetStatus.REMOVED
        row = OutputDataset.objects.exclude(status__in=sorted(WITHDRAWN)).get(dataset_name=dataset_name)
        OutputDataset.objects.filter(pk=row.pk).update(
            status=status, invalidated_at=now, invalidation_reason=reason, updated_at=now
        )
        changed = move_blocks(
            blocks=OutputBlock.objects.filter(dataset=row),
            to=BlockStatus.INVALIDATING,
            now=now,
            invalidation_reason=reason,
        )
        audit.record(
            actor=actor, action="remove_dataset", target=dataset_name, reason=reason, status=status.value,
            request=row.workflow.request_name, blocks=changed, size_bytes=planned.size_bytes,
        )  # fmt: skip
    return changed
