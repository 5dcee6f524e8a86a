"""Execution of the output pipeline for one block. May be repeated at any point by any worker."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models.functions import Coalesce
from django.utils import timezone

from outputs_app.checking import describe_wrong
from outputs_app.models import OutputBlock
from outputs_app.pipeline import (
    MOVING,
    PIPELINE,
    RATE_LIMIT_PATIENCE_SEC,
    RATE_LIMIT_RETRY_SEC,
    Stage,
    Step,
)
from outputs_app.services.block_status import move_block
from outputs_app.services.recording import close_block
from outputs_app.states import WITHDRAWN, BlockStatus
from outputs_app.steps import STEPS
from wms2_project.access.causes import caused
from wms2_project.errors import RateLimited, StaleVersion, Wms2Error
from wms2_project.failpoints import failpoint
from wms2_project.leases import backoff_seconds, release, working_on
from wms2_project.locks import try_lock
from wms2_project.service_guards import calling_as

logger = logging.getLogger(__name__)
FORWARD = MOVING - {BlockStatus.INVALIDATING}


def advance_block(block_id: UUID | str) -> None:
    """Execute steps of the block until it must wait. One worker at a time works on a block."""
    with try_lock(f"block {block_id}") as held:
        if not held:
            return
        block = OutputBlock.objects.select_related("dataset__workflow").get(pk=block_id)
        name = block.dataset.workflow.request_name
        with caused(f"walk {block.status}", target=name, block=block.block_name), working_on(block):
            try:
                _refuse_killer(block)
                wait = _walk(block)
            except StaleVersion as changed:  # changed concurrently; the next run follows that change
                logger.info("%s", changed)
                release(block, seconds=0)
            except RateLimited as limited:
                _wait_for_limit(block, str(limited))
            except Wms2Error as error:
                logger.warning("%s: %s", type(error).__name__, error)
                _record_error(block, str(error))
            except Exception as error:  # a bug must stop this block only, and be visible on it
                logger.exception("unexpected error")
                _record_error(block, f"{type(error).__name__}: {error}")
            else:
                release(block, seconds=wait)


def _refuse_killer(block: OutputBlock) -> None:
    if block.worker_deaths >= settings.MAX_WORKER_DEATHS:
        raise Wms2Error(f"{block.worker_deaths} workers in a row died while processing this block")


def _walk(block: OutputBlock) -> float:
    """Execute steps until the block must wait; return the seconds to wait.

    Steps of a lower tier are left to the sweep, which claims more urgent blocks first.
    """
    if block.dataset.status in WITHDRAWN and block.status in FORWARD:
        move_block(block=block, to=BlockStatus.INVALIDATING)
    tier = _stage(block).tier
    while tier is not None and (stage := _stage(block)).tier is tier and stage.step is not None:
        now = timezone.now()
        wait = _seconds_to_wait(block, now)
        if wait > 0:
            return wait
        with calling_as(tier, patience_sec=RATE_LIMIT_PATIENCE_SEC[tier]):
            reached = STEPS[stage.step](block, now)
        _forget_errors(block)
        if reached == block.status:
            return 0.0 if stage.step is Step.CHECK else float(settings.TRANSFER_POLL_INTERVAL_SEC)
        if reached is BlockStatus.FAILED:
            move_block(block=block, to=reached, last_error=describe_wrong(block)[:4000], last_error_at=now)
        else:
            move_block(block=block, to=reached)
            failpoint("block.moved")
    return 0.0


def _stage(block: OutputBlock) -> Stage:
    return PIPELINE[BlockStatus(block.status)]


def _forget_errors(block: OutputBlock) -> None:
    """Clear the errors after a successful step. Waiting does not clear them."""
    if block.last_error:
        OutputBlock.objects.filter(pk=block.pk).update(attempt=0, last_error="", failing_since=None)
        block.attempt, block.last_error, block.failing_since = 0, "", None


def _wait_for_limit(block: OutputBlock, message: str) -> None:
    """Retry soon. The message is shown unless it would hide an error."""
    shown = {} if block.failing_since else {"last_error": message[:4000], "last_error_at": timezone.now()}
    tier = _stage(block).tier
    release(block, seconds=RATE_LIMIT_RETRY_SEC[tier] if tier is not None else 0, **shown)


def _seconds_to_wait(block: OutputBlock, now: datetime) -> float:
    """Return the seconds until the next step; close a block that has waited for more files."""
    if block.closed_at is None:
        lingers_until = block.created_at + timedelta(seconds=settings.BLOCK_LINGER_SEC)
        if now < lingers_until:
            return (lingers_until - now).total_seconds()
        close_block(block=block, now=now)
    if _stage(block).step is Step.POLL_TRANSFERS and block.last_transfer_check:
        next_poll = block.last_transfer_check + timedelta(seconds=settings.TRANSFER_POLL_INTERVAL_SEC)
        return max(0.0, (next_poll - now).total_seconds())
    return 0.0


def _record_error(block: OutputBlock, error: str) -> None:
    now, attempt = timezone.now(), block.attempt + 1
    release(
        block,
        seconds=backoff_seconds(attempt),
        attempt=attempt,
        last_error=error[:4000],
        last_error_at=now,
        failing_since=Coalesce("failing_since", now),
    )
