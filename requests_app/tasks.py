"""Every Celery task of WMS2. Each is one call; what is due is decided by PostgreSQL."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from outputs_app.services import advance_block as advance_one_block
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.due import claim_blocks, claim_requests
from requests_app.lifecycle.watch import watch_dags


@shared_task(ignore_result=True)
def sweep() -> None:
    """Hand every due request and block to the queue that works on it."""
    for claim, queue in claim_requests():
        advance_request.apply_async([str(claim.id)], queue=queue)
    for claim in claim_blocks():
        advance_block.apply_async([str(claim.id)], queue="outputs")


@shared_task(ignore_result=True)
def monitor() -> None:
    """Look at every live DAG once and wake the requests that have news."""
    watch_dags(now=timezone.now())


@shared_task(ignore_result=True)
def advance_request(request_id: str) -> None:
    """Take one request one step further."""
    advance(request_id)


@shared_task(ignore_result=True)
def advance_block(block_id: str) -> None:
    """Take one output block as far as it will go."""
    advance_one_block(block_id)
