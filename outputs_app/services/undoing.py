"""Taking outputs back. These state the intent, in one transaction with its reason; the sweep executes it."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from dags_app.models import Workflow
from outputs_app.models import OutputDataset
from outputs_app.services.moving import move_blocks
from outputs_app.states import BlockStatus, DatasetStatus
from wms2_project import audit


def supersede_outputs(*, workflow: Workflow, actor: str, reason: str, now: datetime) -> int:
    """A newer version has replaced these datasets. They stay valid and protected until invalidated."""
    with transaction.atomic():
        active = OutputDataset.objects.filter(workflow=workflow, status=DatasetStatus.ACTIVE)
        changed = active.update(status=DatasetStatus.SUPERSEDED, updated_at=now)
        _record("supersede_outputs", workflow, actor, reason, datasets=changed)
    return changed


def invalidate_outputs(*, workflow: Workflow, actor: str, reason: str, now: datetime) -> int:
    """Nobody shall use these datasets: INVALID in DBS and no rule left in Rucio, as soon as both answer."""
    with transaction.atomic():
        datasets = OutputDataset.objects.filter(workflow=workflow).exclude(status=DatasetStatus.INVALIDATED)
        datasets.update(
            status=DatasetStatus.INVALIDATED, invalidated_at=now, invalidation_reason=reason, updated_at=now
        )
        changed = move_blocks(
            workflow=workflow, to=BlockStatus.INVALIDATING, now=now, invalidation_reason=reason
        )
        _record("invalidate_outputs", workflow, actor, reason, blocks=changed)
    return changed


def fail_blocks(*, workflow: Workflow, actor: str, reason: str, now: datetime) -> int:
    """Blocks on their way go no further. What is registered and protected stays until it is invalidated."""
    with transaction.atomic():
        changed = move_blocks(workflow=workflow, to=BlockStatus.FAILED, now=now)
        _record("fail_blocks", workflow, actor, reason, blocks=changed)
    return changed


def _record(action: str, workflow: Workflow, actor: str, reason: str, **counts: int) -> None:
    audit.record(actor=actor, action=action, target=workflow.request_name, reason=reason, **counts)
