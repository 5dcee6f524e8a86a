"""Cleanup of intermediate datasets: which ones are no longer needed, and their removal.

The intent is a status, written in the transaction that makes the dataset unneeded. The sweep carries it out,
so a crash between the last step and the removal only delays it. A dataset with a consumer anywhere waits.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Annotated

from django.conf import settings
from django.utils import timezone

from chains_app.models import Chain, ChainDataset
from chains_app.selectors.consumers import unfinished_consumers, waiting_consumers
from chains_app.states import ENDED, GOING, STEP_ENDED, CleanupStrategy, DatasetRole, DatasetStatus
from chains_app.transitions import move_dataset
from outputs_app.selectors import removal_of
from outputs_app.services import remove_dataset
from wms2_project.access.causes import caused
from wms2_project.errors import Conflict, Wms2Error
from wms2_project.failpoints import failpoint
from wms2_project.leases import backoff_seconds, release, working_on
from wms2_project.locks import try_lock

logger = logging.getLogger(__name__)
ACTOR = "system:cleanup"


@dataclass(frozen=True, slots=True)
class Removal:
    """Cleanup of one dataset of a chain: done, planned or waiting."""

    dataset_name: str
    role: DatasetRole
    status: DatasetStatus
    removed: Annotated[bool, "Whether the cleanup has removed it or will."]
    when: Annotated[str, "When or why it is removed, or why never."]
    waits_for: Annotated[list[str], "Consumers that are not done yet, in all chains and requests."]


def mark_unneeded(*, chain: Chain) -> None:
    """Under `greedy`, mark intermediates whose last consumer in this chain is done."""
    if chain.template.cleanup != CleanupStrategy.GREEDY:
        return
    rows = chain.datasets.filter(role=DatasetRole.INTERMEDIATE, status=DatasetStatus.COMPLETE)
    for row in rows.select_related("chain__template", "producer"):
        if not unfinished_consumers(row):
            _mark(row, "every consumer is done")


def on_finished(*, chain: Chain) -> None:
    """Mark what the strategy removes at the end of a chain, in the transaction that ends it."""
    for row in chain.datasets.filter(status=DatasetStatus.COMPLETE).select_related(
        "chain__template", "producer"
    ):
        if _goes(row):
            _mark(row, "every final dataset is complete")


def _goes(row: ChainDataset) -> bool:
    """Return whether the strategy of its template removes a dataset at some time."""
    template = row.chain.template
    if row.role == DatasetRole.INPUT:
        return template.delete_input
    if row.role == DatasetRole.LOG:
        return template.cleanup != CleanupStrategy.KEEP and not template.keep_logs
    return row.role == DatasetRole.INTERMEDIATE and template.cleanup != CleanupStrategy.KEEP


def _mark(row: ChainDataset, reason: str) -> None:
    move_dataset(dataset=row, to=DatasetStatus.REMOVING, reason=reason, actor=ACTOR, removal_reason=reason)


def advance_removal(dataset_id: int | str) -> None:
    """Remove a dataset that is marked, unless something still needs it. Safe to repeat."""
    with try_lock(f"chain dataset {dataset_id}") as held:
        if not held:
            return
        row = ChainDataset.objects.select_related("chain__template", "producer").get(pk=dataset_id)
        if row.status != DatasetStatus.REMOVING:
            return
        with caused("remove dataset", target=row.dataset_name), working_on(row):
            try:
                _remove(row)
            except Wms2Error as error:
                logger.warning("removal of %s: %s", row, error)
                attempt = row.attempt + 1
                release(
                    row, seconds=backoff_seconds(attempt), attempt=attempt, last_error=str(error)[:4000],
                    last_error_at=timezone.now(), wait_reason=f"retried: {error}"[:1000],
                )  # fmt: skip


def _remove(row: ChainDataset) -> None:
    waiting = waiting_consumers(row)
    if waiting:
        why = f"still needed by {', '.join(waiting[:5])}" + (" and others" if len(waiting) > 5 else "")
        release(row, seconds=settings.CHAIN_LOOK_SEC, wait_reason=why[:1000], attempt=0)
        return
    failpoint("cleanup.decided")
    own = row.role == DatasetRole.INPUT  # of an input only WMS2's own rules go
    try:
        remove_dataset(
            dataset_name=row.dataset_name, actor=ACTOR, reason=f"{row.chain}: {row.removal_reason}",
            now=timezone.now(), only_rules=own,
        )  # fmt: skip
    except Conflict as error:
        release(row, seconds=0, last_error="", attempt=0)
        move_dataset(dataset=row, to=DatasetStatus.COMPLETE, reason=f"kept: {error.message}", actor=ACTOR)
        return
    failpoint("cleanup.requested")
    if not removal_of(dataset_name=row.dataset_name).done:
        release(row, seconds=settings.CHAIN_LOOK_SEC, wait_reason="its blocks are being withdrawn", attempt=0)
        return
    release(row, seconds=0, last_error="", attempt=0)
    move_dataset(dataset=row, to=DatasetStatus.REMOVED, reason=row.removal_reason, actor=ACTOR)


def removal_plan(chain: Chain) -> list[Removal]:
    """Return what the cleanup has done or will do to each dataset of a chain, and when."""
    rows = chain.datasets.select_related("chain__template", "producer").order_by("id")
    return [_planned_removal(row) for row in rows]


def _planned_removal(row: ChainDataset) -> Removal:
    role, status = DatasetRole(row.role), DatasetStatus(row.status)
    if status in GOING:
        waits = waiting_consumers(row) if status == DatasetStatus.REMOVING else []
        return Removal(row.dataset_name, role, status, removed=True, when=row.removal_reason, waits_for=waits)
    if kept := _why_kept(row):
        return Removal(row.dataset_name, role, status, removed=False, when=f"never: {kept}", waits_for=[])
    greedy = row.chain.template.cleanup == CleanupStrategy.GREEDY and role == DatasetRole.INTERMEDIATE
    when = "once every consumer is done" if greedy else "once every step of the chain is done"
    return Removal(row.dataset_name, role, status, removed=True, when=when, waits_for=waiting_consumers(row))


def _why_kept(row: ChainDataset) -> str:
    """Return why a dataset stays; empty if it is removed later."""
    if row.status == DatasetStatus.PLANNED and row.producer is not None and row.producer.status in STEP_ENDED:
        return f"it was not made, {row.producer} is {row.producer.status}"
    if row.role == DatasetRole.FINAL:
        return "final datasets are kept"
    if not _goes(row):
        return "the template keeps it"
    return f"the chain is {row.chain.status}" if row.chain.status in ENDED else ""
