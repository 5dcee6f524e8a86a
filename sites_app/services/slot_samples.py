"""Slots of the sites over time: recorded with each measurement, fewer the older they are.

A sample has the last measurement of an interval of ten minutes. After two days one of two hours is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection

from sites_app.models import Site, SlotSample

INTERVAL = timedelta(minutes=10)
KEPT_INTERVAL = timedelta(hours=2)
KEEP_ALL = timedelta(days=2)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Samples are thinned soon after they are two days old; older ones have been.
_LATELY = timedelta(days=7)
_THIN = """
DELETE FROM sites_app_slotsample WHERE at >= %(since)s AND at < %(before)s
   AND extract(epoch FROM at)::bigint %% %(kept_sec)s <> 0"""


def record_slots(sites: Iterable[Site], *, now: datetime) -> None:
    """Store the measured slots as the sample of the present interval."""
    at = now - (now - _EPOCH) % INTERVAL
    samples = [
        SlotSample(
            site=site, at=at, total=site.total_slots, running=site.running_slots, pending=site.pending_slots
        )
        for site in sites
    ]
    SlotSample.objects.bulk_create(
        samples,
        update_conflicts=True,
        unique_fields=["site", "at"],
        update_fields=["total", "running", "pending"],
    )


def thin_slot_samples(*, now: datetime) -> None:
    """Keep fewer samples after two days, and none beyond `KEEP_SAMPLES_DAYS`."""
    before = now - KEEP_ALL
    with connection.cursor() as cursor:
        kept_sec = int(KEPT_INTERVAL.total_seconds())
        cursor.execute(_THIN, {"since": before - _LATELY, "before": before, "kept_sec": kept_sec})
    oldest = now - timedelta(days=settings.KEEP_SAMPLES_DAYS)
    SlotSample.objects.filter(at__lt=oldest).delete()
