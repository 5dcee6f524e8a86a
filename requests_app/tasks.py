"""All Celery tasks of WMS2. Each calls one function; PostgreSQL decides what is due."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from dags_app.services import quarantine
from outputs_app.services import advance_block as advance_one_block
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.credential_gate import keep_credentials
from requests_app.lifecycle.due import (
    PRIORITIES,
    claim_blocks,
    claim_callbacks,
    claim_next_step,
    claim_requests,
    due_groups,
    priority_of,
)
from requests_app.lifecycle.maintenance import clean_storage, tidy_up
from requests_app.lifecycle.monitoring import watch_dags
from requests_app.ranking import refresh_ranks
from requests_app.services import callbacks
from requests_app.services.reqmgr2_reports import report_statuses
from requests_app.services.retention import POLICIES, apply_retention
from requests_app.services.storage_policy import check_storage
from sites_app.services import sites
from sites_app.services.slots import measure_on_schedule
from wms2_project.celery import app
from wms2_project.leases import Claim


@shared_task(ignore_result=True)
def sweep() -> None:
    """Send every due request, block and callback to its queue, in one call to the broker."""
    due = due_groups()
    with app.producer_or_acquire() as producer, producer.batch():
        for claim, queue in claim_requests(due):
            _send_request(claim, queue, producer=producer)
        for block, tier in claim_blocks(due):
            advance_block.apply_async(
                [str(block.id)], queue="outputs", priority=PRIORITIES[tier], producer=producer
            )
        for claim in claim_callbacks(due):
            deliver_callback.apply_async([str(claim.id)], queue="outputs", producer=producer)


def _send_request(claim: Claim, queue: str, *, producer: Any = None) -> None:
    advance_request.apply_async(
        [str(claim.id)], queue=queue, priority=priority_of(claim.status), producer=producer
    )


@shared_task(ignore_result=True)
def monitor() -> None:
    """Observe every live DAG and wake requests with changes."""
    watch_dags(now=timezone.now())


@shared_task(ignore_result=True)
def report() -> None:
    """Report request statuses to ReqMgr2."""
    report_statuses(now=timezone.now())


@shared_task(ignore_result=True)
def tidy() -> None:
    """Expire bans, watch and retire outputs, and send alerts."""
    tidy_up(now=timezone.now())


@shared_task(ignore_result=True)
def credentials() -> None:
    """Renew the tokens of jobs and report credentials that end soon."""
    keep_credentials(now=timezone.now())


@shared_task(ignore_result=True)
def clean() -> None:
    """Remove leftovers of jobs from site storage, and old submit directories."""
    clean_storage(now=timezone.now())


@shared_task(ignore_result=True)
def retain() -> None:
    """Remove rows that are past their time."""
    apply_retention(now=timezone.now(), seconds=settings.CLEAN_LOOK_SEC / len(POLICIES))


@shared_task(ignore_result=True)
def measure() -> None:
    """Read the storage usage of sites from Rucio and apply the storage policy."""
    check_storage()


@shared_task(ignore_result=True)
def rank() -> None:
    """Compute the rank of every queued request."""
    refresh_ranks()


@shared_task(ignore_result=True)
def declare_replicas() -> None:
    """Declare copies proved bad to Rucio."""
    quarantine.declare_replicas(now=timezone.now())


@shared_task(ignore_result=True)
def sync_sites() -> None:
    """Update sites, their storages and states from CRIC."""
    sites.sync_on_schedule(now=timezone.now())


@shared_task(ignore_result=True)
def slots() -> None:
    """Measure the sites' slots from the pool."""
    measure_on_schedule(now=timezone.now())


@shared_task(ignore_result=True)
def advance_request(request_id: str) -> None:
    """Advance one request by one step; after a change of status, send the next step to its queue."""
    following = claim_next_step(request_id) if advance(request_id) else None
    if following is not None:
        _send_request(*following)


@shared_task(ignore_result=True)
def advance_block(block_id: str) -> None:
    """Advance one output block as far as possible."""
    advance_one_block(block_id)


@shared_task(ignore_result=True)
def deliver_callback(callback_id: str) -> None:
    """Deliver one callback."""
    callbacks.deliver_callback(callback_id=callback_id, now=timezone.now())
