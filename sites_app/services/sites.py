"""Sites: synchronised with CRIC; drained, closed and enabled by operators."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from time import monotonic

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from cms.types import SiteInfo
from dags_app.adapters import cric, rucio
from sites_app.models import Site
from sites_app.selectors import storage_at
from sites_app.services.site_settings import STORAGES, put_status, refuse_operators_status
from sites_app.services.sources import CRIC, RUCIO, reading
from sites_app.states import BY_CRIC, CricState, SiteStatus
from wms2_project.access import audit
from wms2_project.errors import Conflict, ServiceRejected, Wms2Error
from wms2_project.locks import try_lock
from wms2_project.wakeups import DATA, SITES, STORAGE, wake_waiting

logger = logging.getLogger(__name__)
UPDATE_SEC = 120.0  # for storage prefixes; within the time limit of a task
NEW = "new in CRIC"
MAX_CLOSED = 3  # sites that one synchronisation may always close
MAX_CLOSED_FRACTION = 0.5
_CHANGES = {
    CricState.ACTIVE: ("reopen", "CRIC lists the site as active again"),
    CricState.INACTIVE: ("close", "CRIC lists the site as not in operation"),
    CricState.ABSENT: ("close", "CRIC no longer lists the site"),
}


def sync_sites(*, now: datetime, force: bool = False) -> int:
    """Copy the sites that CRIC lists, their storages and states; return their number.

    Then read the prefixes of each site's storage from Rucio. New sites are enabled or disabled according to
    WMS2_NEW_SITES. Decisions of operators are kept. Raises Conflict while another synchronisation runs, and
    ServiceRejected, changing nothing, if most sites would be closed and `force` is not given.
    """
    with try_lock("sync sites") as held:
        if not held:
            raise Conflict("Sites are being synchronised already", cure="Wait until that is done")
        with reading(CRIC, now=now):
            found = {site.name: site for site in cric().sites()}
            with transaction.atomic():
                known = {site.name: site for site in Site.objects.select_for_update().order_by("name")}
                states = _states(known, found)
                if not force:
                    _refuse_closing_most(known, states)
                _add_new([found[name] for name in sorted(found.keys() - known.keys())], now=now)
                _update_known(known, found, states, now=now)
                wake_waiting(DATA, SITES)
        _update_prefixes(now=now)
    return len(found)


def sync_on_schedule(*, now: datetime) -> None:
    """Synchronise the sites. An error is recorded for health; the next run retries."""
    try:
        sync_sites(now=now)
    except Wms2Error as error:
        logger.warning("sites are not synchronised: %s", error)


def _update_prefixes(*, now: datetime) -> None:
    """Update the prefixes. If Rucio fails, the sites keep theirs, and its error is recorded for health."""
    try:
        with reading(RUCIO, now=now):
            update_prefixes()
    except Wms2Error as error:
        logger.warning("the storage prefixes of the sites are not updated: %s", error)


def _states(known: Mapping[str, Site], found: Mapping[str, SiteInfo]) -> dict[str, CricState]:
    """Return the state of each known site; one that CRIC never listed has none."""
    states = {name: _state(found[name]) for name in known if name in found}
    gone = {name for name, site in known.items() if name not in found and site.synced_at is not None}
    return states | dict.fromkeys(gone, CricState.ABSENT)


def _state(site: SiteInfo) -> CricState:
    return CricState.ACTIVE if site.active else CricState.INACTIVE


def _refuse_closing_most(known: Mapping[str, Site], states: Mapping[str, CricState]) -> None:
    active = [name for name in states if known[name].cric_state == CricState.ACTIVE]
    closed = [name for name in active if states[name] != CricState.ACTIVE]
    if len(closed) > max(MAX_CLOSED, len(active) * MAX_CLOSED_FRACTION):
        raise ServiceRejected(
            f"CRIC would close {len(closed)} of {len(active)} sites at once, such as {min(closed)};"
            " no site is changed",
            cure="Ask the administrators of CRIC. If it is right, run manage.py sync_sites --force",
        )


def _add_new(sites: list[SiteInfo], *, now: datetime) -> None:
    status = SiteStatus(settings.NEW_SITES)
    rows = []
    for site in sites:
        row = Site(name=site.name, storage_elements=list(site.rses), cric_state=_state(site), synced_at=now)
        # only an operator, not an admin of the site, enables a site that starts disabled
        put_status(row, status, actor=BY_CRIC, reason=NEW, by_operator=status != SiteStatus.ENABLED)
        rows.append(row)
        audit.record(actor=BY_CRIC, action=status.value, target=site.name, reason=NEW)
    Site.objects.bulk_create(rows)


def _update_known(
    known: Mapping[str, Site],
    found: Mapping[str, SiteInfo],
    states: Mapping[str, CricState],
    *,
    now: datetime,
) -> None:
    for name, state in states.items():
        site = known[name]
        if site.cric_state != state:
            action, reason = _CHANGES[state]
            audit.record(actor=BY_CRIC, action=action, target=name, reason=reason)
            site.cric_state, site.version = state, site.version + 1
        if name in found:
            site.storage_elements = site.config_data.get(STORAGES, list(found[name].rses))
            site.synced_at = now
    changed = [known[name] for name in sorted(states)]
    Site.objects.bulk_update(changed, ["cric_state", "version", "storage_elements", "synced_at"])


def drain_site(
    *, site: Site, until: datetime | None, reason: str, actor: str, by_operator: bool = True
) -> Site:
    """Accept no new landings until the given time, or until the site is enabled."""
    return _set_status(
        site, SiteStatus.DRAINING, until=until, reason=reason, actor=actor, by_operator=by_operator
    )


def start_maintenance(
    *, site: Site, until: datetime | None, reason: str, actor: str, by_operator: bool = True
) -> Site:
    """Close the site for new work until the time given or, without one, until it is enabled."""
    return _set_status(
        site, SiteStatus.MAINTENANCE, until=until, reason=reason, actor=actor, by_operator=by_operator
    )


def disable_site(*, site: Site, reason: str, actor: str, by_operator: bool = True) -> Site:
    """Close the site for new work until it is enabled."""
    return _set_status(
        site, SiteStatus.DISABLED, until=None, reason=reason, actor=actor, by_operator=by_operator
    )


def enable_site(*, site: Site, reason: str, actor: str, by_operator: bool = True) -> Site:
    """Accept new landings again."""
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
        put_status(locked, status, until=until, actor=actor, reason=reason, by_operator=by_operator)
        locked.version += 1
        locked.save()
        audit.record(actor=actor, action=status.value, target=site.name, reason=reason, until=ends)
        wake_waiting(DATA, SITES, STORAGE)  # also for a drain, whose end may have changed
    site.refresh_from_db()
    return site


def update_prefixes() -> int:
    """Read the URL prefixes of each site's output storage from Rucio; return how many sites changed.

    Running DAGs keep the prefixes that they were planned with. What Rucio refuses at one storage does not
    affect the others; if it does not answer, the error is raised and the rest stays as it is.
    """
    changed, began = 0, monotonic()
    active = Site.objects.filter(cric_state=CricState.ACTIVE).order_by("name")
    for name, known in list(active.values_list("name", "storage_prefixes")):
        if monotonic() - began > UPDATE_SEC:
            logger.warning("storage prefixes: no time left for %s and the sites after it", name)
            break
        try:
            found = list(rucio().storage_prefixes(storage_at(name)))
        except ServiceRejected as error:
            logger.warning("the storage prefixes of %s are not updated: %s", name, error)
            continue
        if found != known:
            changed += Site.objects.filter(pk=name).update(storage_prefixes=found)
    return changed
