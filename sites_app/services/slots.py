"""Slots of the sites: counted by the pool's collector; waiting jobs are counted at its schedds."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import datetime

from django.db import transaction

from condor.types import SlotCount
from dags_app.adapters import collector, schedd, schedd_names
from sites_app.models import Site
from sites_app.services.slot_samples import record_slots
from sites_app.services.sources import COLLECTOR, reading
from wms2_project.changes import Topic, announce
from wms2_project.errors import ScheddUnreachable, Wms2Error
from wms2_project.locks import try_lock

logger = logging.getLogger(__name__)


def measure_slots(*, now: datetime) -> int:
    """Store the slots of every site; return how many sites have some. One slot is one core.

    A site without a slot in the pool has none. Without an answer from the collector nothing is stored and the
    error is raised. Jobs of a schedd that does not answer are not counted as pending.
    """
    with reading(COLLECTOR, now=now):
        counts = collector().count_slots()
        pending = _pending_cores()
        with transaction.atomic():
            sites = list(Site.objects.select_for_update().order_by("name"))
            before = [(site.total_slots, site.running_slots, site.pending_slots) for site in sites]
            for site in sites:
                counted = counts.get(site.name, SlotCount())
                site.total_slots, site.running_slots = counted.total, counted.running
                site.pending_slots, site.slots_measured_at = pending[site.name], now
            Site.objects.bulk_update(
                sites, ["total_slots", "running_slots", "pending_slots", "slots_measured_at"]
            )
            record_slots(sites, now=now)
            if before != [(site.total_slots, site.running_slots, site.pending_slots) for site in sites]:
                announce(Topic.SITES)
    return sum(site.total_slots > 0 for site in sites)


def _pending_cores() -> Counter[str]:
    pending: Counter[str] = Counter()
    for name in schedd_names():
        try:
            pending.update(schedd(name).idle_cores())
        except ScheddUnreachable as error:
            logger.warning("jobs that wait at %s are not counted: %s", name, error)
    return pending


def measure_on_schedule(*, now: datetime) -> None:
    """Measure the slots unless another process does. An error is recorded; the next run retries."""
    with try_lock("measure slots") as held:
        if not held:
            return
        try:
            measure_slots(now=now)
        except Wms2Error as error:
            logger.warning("slots are not measured: %s", error)
