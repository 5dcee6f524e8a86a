"""Slow poll of Rucio: announces closed datasets that no message announced."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings

from chains_app.intake.sources import BATCH
from chains_app.intake.status import POLL, Waiting, write_status
from chains_app.intake.taking import actor_of
from chains_app.models import Announcement
from chains_app.services.announcing import (
    NewAnnouncement,
    build_announcement,
    build_dead_letter,
    store_announcements,
)
from dags_app import adapters
from wms2_project.errors import InvalidInput, Wms2Error

logger = logging.getLogger(__name__)


def poll_on_schedule(*, now: datetime) -> None:
    """Poll if names are configured. An error is recorded for /readyz; the next run retries."""
    if not settings.INTAKE_POLL_NAMES:
        return
    try:
        number = poll_datasets(now=now)
    except Wms2Error as error:
        logger.warning("closed datasets are not polled: %s", error)
        write_status(POLL, Waiting.after("Rucio", error))
        return
    write_status(POLL, Waiting())
    if number:
        logger.info("%s closed datasets were announced by the poll", number)


def poll_datasets(*, now: datetime) -> int:
    """Announce closed datasets of the configured names that have no announcement; return how many.

    The uid is that of the event of Rucio: a message that comes late changes nothing.
    """
    since = now - timedelta(days=settings.INTAKE_POLL_DAYS)
    rucio = adapters.rucio()
    names = sorted(
        {
            name
            for pattern in settings.INTAKE_POLL_NAMES
            for name in rucio.closed_datasets(pattern, since=since)
        }
    )
    return sum(_announce(names[start : start + BATCH]) for start in range(0, len(names), BATCH))


def _announce(names: Sequence[str]) -> int:
    known = set(Announcement.objects.filter(dataset_name__in=names).values_list("dataset_name", flat=True))
    rows = [_row(name) for name in names if name not in known]
    return store_announcements(rows) if rows else 0


def _row(name: str) -> NewAnnouncement:
    uid, actor = f"{settings.RUCIO_SCOPE}:{name}", actor_of(POLL)
    try:
        return build_announcement(uid=uid, name=name, actor=actor)
    except InvalidInput as error:
        return build_dead_letter(body=name, reason=str(error), actor=actor)
