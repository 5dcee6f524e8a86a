"""Site settings from operators or monitoring robots. They override values from CRIC and Rucio."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from time import monotonic
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from dags_app.adapters import rucio
from sites_app.models import Site
from sites_app.selectors import storage_at
from sites_app.states import SiteStatus
from wms2_project.access import audit
from wms2_project.errors import NotAllowed, StaleVersion, Wms2Error
from wms2_project.wakeups import DATA, SITES, STORAGE, wake_waiting

logger = logging.getLogger(__name__)
MEASURE_SEC = 200.0  # within the time limit of a task
MEASURED = "storage_measured_fraction"
STORAGE_DISTANCES = "storage_distances"  # from the site to storages, in pull mode; over the defaults
STORAGES = "storage_elements"  # in config_data as decided, and in its column as used


def change_site(
    *,
    site: Site,
    changes: Mapping[str, Any],
    actor: str,
    reason: str,
    expected_version: int | None = None,
    by_operator: bool = True,
) -> Site:
    """Change the given settings; null removes one. Takes effect in planning, landing and admission at once.

    Storages set by an operator override those from CRIC until set to null.
    """
    audit.need_reason(reason)
    with transaction.atomic():
        locked = Site.objects.select_for_update().get(pk=site.pk)
        if expected_version not in (None, locked.version):
            raise StaleVersion(f"{site.name} changed since you read it", cure="Read it again and retry")
        if "status" in changes and not by_operator:
            refuse_operators_status(locked, now=timezone.now())
        previous = {name: _known(locked, name) for name in changes}
        for name, value in changes.items():
            if name == "status":
                put_status(locked, SiteStatus(value), actor=actor, reason=reason, by_operator=by_operator)
            elif name == "memory_mb_per_core":
                locked.thresholds = _with(locked.thresholds, name, value)
            else:
                locked.config_data = _with(locked.config_data, name, value)
        if changes.get(STORAGES):
            locked.storage_elements = list(changes[STORAGES])
        locked.version += 1
        locked.save()
        audit.record(
            actor=actor,
            action="change",
            target=site.name,
            reason=reason,
            changes=dict(changes),
            previous=previous,
        )
        wake_waiting(DATA, SITES, STORAGE)
    site.refresh_from_db()
    return site


def refuse_operators_status(site: Site, *, now: datetime) -> None:
    """Raise NotAllowed if the site is closed by an operator's decision that still holds."""
    over = site.drain_until is not None and site.drain_until <= now
    if site.set_by_operator and site.status != SiteStatus.ENABLED and not over:
        because = f" ({site.status_reason})" if site.status_reason else ""
        raise NotAllowed(
            f"{site} is {site.status}{because}; only an operator may change that", cure="Ask an operator"
        )


def put_status(
    site: Site,
    status: SiteStatus,
    *,
    actor: str,
    reason: str,
    by_operator: bool,
    until: datetime | None = None,
) -> None:
    """Set the status of a locked row, which the caller saves and audits."""
    site.status, site.drain_until = status, until
    site.status_by, site.status_reason, site.set_by_operator = actor, reason, by_operator


def _known(site: Site, name: str) -> Any:
    return site.status if name == "status" else (site.thresholds | site.config_data).get(name)


def measure_storage(*, clock: Callable[[], float] = monotonic) -> int:
    """Read the usage of each site's output storage from Rucio. Return the number of sites updated.

    The value is stored beside one set by PATCH, which overrides it until set to null. The sites with the
    oldest values come first; a failure at one storage does not affect the others.
    """
    updated, began, troubles = 0, clock(), []
    longest_ago = Site.objects.order_by(F("storage_asked_at").asc(nulls_first=True), "name")
    for name in list(longest_ago.values_list("name", flat=True)):
        if clock() - began > MEASURE_SEC:
            break
        Site.objects.filter(pk=name).update(storage_asked_at=Now())
        try:
            used = rucio().used_fraction(storage_at(name))
        except Wms2Error as error:
            troubles.append(f"{name}: {error}")
            continue
        with transaction.atomic():
            locked = Site.objects.select_for_update().get(pk=name)
            before = locked.config_data.get(MEASURED)
            locked.config_data = _with(locked.config_data, MEASURED, used)
            locked.save(update_fields=["config_data"])
            if before is not None and (used is None or used < before):
                wake_waiting(STORAGE)
        updated += used is not None
    if troubles:
        logger.warning("%d storages are not measured, the first is %s", len(troubles), troubles[0])
    return updated


def storage_used(config_data: Mapping[str, Any]) -> float | None:
    """Return the used fraction of a site's storage: as set by PATCH, else as measured, or None."""
    known: float | None = config_data.get("storage_used_fraction", config_data.get(MEASURED))
    return known


def _with(values: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    rest = {key: kept for key, kept in values.items() if key != name}
    return rest if value is None else rest | {name: value}
