"""Sites: taken from CRIC, drained and enabled by operators."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from dags_app.adapters import cric
from sites_app.configuring import STORAGES, refuse_operators_status
from sites_app.models import Site
from sites_app.states import SiteStatus
from wms2_project import audit
from wms2_project.waiting import DATA, SITES, STORAGE, wake_waiting


def sync_sites(*, now: datetime) -> int:
    """Take over every site CRIC knows, and its storages. What an operator decided stays."""
    found = cric().sites()
    decided = dict(
        Site.objects.filter(config_data__has_key=STORAGES).values_list("name", f"config_data__{STORAGES}")
    )
    rows = [
        Site(name=site.name, storage_elements=decided.get(site.name, list(site.rses)), synced_at=now)
        for site in found
    ]
    with transaction.atomic():
        Site.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["name"],
            update_fields=["storage_elements", "synced_at"],
        )
        wake_waiting(DATA, SITES)
    return len(rows)


def drain_site(
    *, site: Site, until: datetime | None, reason: str, actor: str, by_operator: bool = True
) -> Site:
    """No new landings from now on, until the time given or until somebody enables the site."""
    return _set_status(
        site, SiteStatus.DRAINING, until=until, reason=reason, actor=actor, by_operator=by_operator
    )


def enable_site(*, site: Site, reason: str, actor: str, by_operator: bool = True) -> Site:
    """New landings are welcome."""
    return _set_status(
        site, SiteStatus.ENABLED, until=None, reason=reason, actor=actor, by_operator=by_operator
    )


def _set_status(
    site: Site, status: SiteStatus, *, until: datetime | None, reason: str, actor: str, by_operator: bool
) -> Site:
    ends = until.isoformat() if until is not None else None
    with transaction.atomic():
        locked = Site.objects.select_for_update().get(pk=site.pk)
        if not by_operator:
            refuse_operators_status(locked, now=timezone.now())
        locked.status, locked.drain_until = status, until
        locked.set_by_operator = by_operator
        locked.version += 1
        locked.save()
        audit.record(actor=actor, action=status.value, target=site.name, reason=reason, until=ends)
        wake_waiting(DATA, SITES, STORAGE)  # also for a drain: its end may be another one now
    site.refresh_from_db()
    return site
