"""Celery tasks of chains. Each calls one function; PostgreSQL decides what is due."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from chains_app.intake.polling import poll_on_schedule
from chains_app.services import callbacks
from chains_app.services.advancing import advance_chain as advance_one_chain
from chains_app.services.announcing import match_pending
from chains_app.services.cleaning import advance_removal
from chains_app.services.deadlines import raise_overdue
from chains_app.services.sweeping import claim_callbacks, claim_chains, claim_removals
from wms2_project.celery import app

MATCH_SEC = 10.0  # of one task; the next task continues


@shared_task(ignore_result=True)
def sweep_chains() -> None:
    """Send every due chain, removal and callback to its queue, in one call to the broker."""
    with app.producer_or_acquire() as producer, producer.batch():
        for claim in claim_chains():
            advance_chain.apply_async([str(claim.id)], queue="lifecycle", producer=producer)
        for claim in claim_removals():
            remove_dataset.apply_async([str(claim.id)], queue="outputs", producer=producer)
        for claim in claim_callbacks():
            deliver_callback.apply_async([str(claim.id)], queue="outputs", producer=producer)


@shared_task(ignore_result=True)
def match_announcements() -> None:
    """Start chains for the announcements that the intake stored."""
    match_pending(seconds=MATCH_SEC)


@shared_task(ignore_result=True)
def poll_datasets() -> None:
    """Announce closed datasets that no message announced."""
    poll_on_schedule(now=timezone.now())


@shared_task(ignore_result=True)
def check_deadlines() -> None:
    """Raise alerts for steps past their deadline."""
    raise_overdue(now=timezone.now())


@shared_task(ignore_result=True)
def advance_chain(chain_id: str) -> None:
    """Advance one chain as far as possible."""
    advance_one_chain(chain_id)


@shared_task(ignore_result=True)
def remove_dataset(dataset_id: str) -> None:
    """Remove one dataset that is no longer needed."""
    advance_removal(dataset_id)


@shared_task(ignore_result=True)
def deliver_callback(callback_id: str) -> None:
    """Deliver the callback of one chain."""
    callbacks.deliver_callback(callback_id=callback_id, now=timezone.now())
