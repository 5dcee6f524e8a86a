"""Claims on datasets: the right to write into them. Call inside a transaction, after `lock_datasets`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID

from django.db import connection

from dags_app.models import Workflow
from outputs_app.dataset_ownership import BLOCKED, HELD, check_claim
from outputs_app.models import DatasetClaim, OutputBlock
from outputs_app.states import BlockStatus
from wms2_project.locks import lock_key

NEVER_REGISTERED = (BlockStatus.FAILED, BlockStatus.INVALIDATED)


def lock_datasets(names: Iterable[str]) -> None:
    """Lock these names against other claims until the transaction ends."""
    with connection.cursor() as cursor:
        for name in sorted(set(names)):
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key(f"dataset {name}")])


def claim_datasets(*, workflow: Workflow, chain_id: UUID, found: Mapping[str, str], now: datetime) -> None:
    """Claim every dataset that the workflow writes; the caller has checked that it may.

    `found`: conflicts in DBS by name; a name is missing if DBS did not answer.
    """
    for name in workflow.written_datasets:
        owned = DatasetClaim.objects.filter(HELD, dataset_name=name, is_owner=True).exists()
        DatasetClaim.objects.update_or_create(
            workflow=workflow,
            dataset_name=name,
            defaults={
                "chain_id": chain_id,
                "is_owner": not owned,
                "claimed_at": now,
                "checked_at": now if name in found else None,
                "conflict": found.get(name, ""),
            },
        )


def find_unused(claims: Iterable[DatasetClaim]) -> set[int]:
    """Return the ids of the claims under which nothing was or will be registered in DBS.

    For workflows that have ended. A moving block is registered even if its request failed.
    """
    unused = set()
    for claim in claims:
        blocks = OutputBlock.objects.filter(
            dataset__workflow=claim.workflow_id, dataset__dataset_name=claim.dataset_name
        )
        gone = blocks.filter(status__in=NEVER_REGISTERED, dbs_registered_at__isnull=True)
        if claim.registering_at is None and not blocks.exclude(pk__in=gone).exists():
            unused.add(claim.pk)
    return unused


def release_claims(*, ids: Iterable[int], now: datetime) -> None:
    """Release claims of ended workflows that never used the names."""
    DatasetClaim.objects.filter(pk__in=ids).update(released_at=now)


def allow_sharing(
    *, workflow: Workflow, chain_id: UUID, names: Iterable[str], actor: str, reason: str, now: datetime
) -> None:
    """Let the workflow write into these datasets although others do; make refused blocks due."""
    for name in names:
        DatasetClaim.objects.update_or_create(
            workflow=workflow,
            dataset_name=name,
            defaults={"allowed_by": actor, "allowed_reason": reason},
            create_defaults={"chain_id": chain_id, "allowed_by": actor, "allowed_reason": reason},
        )
    refused = OutputBlock.objects.filter(dataset__workflow=workflow, status=BlockStatus.CHECKED)
    refused.filter(dataset__dataset_name__in=names, closed_at__isnull=False).update(next_check_at=now)


def check_claims(*, workflow: Workflow, now: datetime) -> None:
    """Query DBS for claimed datasets that were not checked yet."""
    for claim in workflow.claims.filter(HELD, checked_at__isnull=True).order_by("dataset_name"):
        check_claim(claim, now)


def forget_conflicts(*, workflow: Workflow) -> None:
    """Clear unresolved conflicts, so that DBS is queried again."""
    workflow.claims.filter(BLOCKED).update(checked_at=None, conflict="")
