"""Selectors of sites: usability, bans, counts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, Exists, F, OuterRef, Q, QuerySet, Value, When

from dags_app.models import MergeGroup, SecondaryDataset, Workflow
from dags_app.planning.types import SitePool
from dags_app.services.secondary import holds_all, secondary_datasets
from dags_app.states import LIVE_DAG, GroupStatus
from sites_app.models import Site, SiteBan
from sites_app.states import BY_CRIC, TIMED, CricState, SiteStatus
from wms2_project.errors import NotFound


def site_by_name(name: str) -> Site:
    """Return the site. Raise NotFound if it does not exist."""
    site = Site.objects.filter(pk=name).first()
    if site is None:
        raise NotFound(f"There is no site {name}", cure="See GET /api/v1/sites for the known sites")
    return site


def open_for_work(*, now: datetime) -> Q:
    """Match sites that CRIC lists as active and that are enabled, or whose drain or maintenance is over."""
    return Q(cric_state=CricState.ACTIVE) & (
        Q(status=SiteStatus.ENABLED) | Q(status__in=TIMED, drain_until__lte=now)
    )


def usable_sites(
    *, workflow: Workflow, now: datetime, secondary: Sequence[SecondaryDataset] | None = None
) -> SitePool:
    """Return the sites this workflow may land on: enabled, allowed by its lists, not banned, with its pileup.

    `secondary`: the secondary datasets, if not those that are stored for the workflow.
    """
    takes_work = open_for_work(now=now)
    if workflow.site_whitelist:
        takes_work &= Q(name__in=workflow.site_whitelist)
    if workflow.site_blacklist:
        takes_work &= ~Q(name__in=workflow.site_blacklist)
    takes_work &= ~Q(Exists(bans_in_force(workflow=workflow, now=now).filter(site=OuterRef("pk"))))
    names: set[str] = set()
    by_storage: dict[str, set[str]] = {}
    memory: dict[str, int] = {}
    prefixes: dict[str, list[str]] = {}
    every_site = Site.objects.annotate(takes_work=takes_work)
    needed = secondary_datasets(workflow=workflow) if secondary is None else secondary
    lacking: set[str] = set()
    for site in every_site.only("name", "storage_elements", "storage_prefixes", "thresholds"):
        if site.takes_work:
            served = all(holds_all(row, site.storage_elements) for row in needed)
            (names if served else lacking).add(site.name)
        if "memory_mb_per_core" in site.thresholds:
            memory[site.name] = int(site.thresholds["memory_mb_per_core"])
        if site.storage_prefixes:
            prefixes[site.name] = site.storage_prefixes
        for storage in site.storage_elements:
            by_storage.setdefault(storage, set()).add(site.name)
    return SitePool(
        names=frozenset(names),
        by_storage={storage: frozenset(readers) for storage, readers in by_storage.items()},
        memory_mb_per_core=memory,
        lacking=frozenset(lacking),
        prefixes=prefixes,
    )


def bans_in_force(*, workflow: Workflow, now: datetime) -> QuerySet[SiteBan]:
    """Return the bans for all or for this workflow."""
    concerned = Q(workflow__isnull=True) | Q(workflow_id=workflow.pk)  # by key: a preview is not stored
    return SiteBan.objects.filter(concerned, removed_at__isnull=True, expires_at__gt=now)


def banned(*, workflow: Workflow, now: datetime) -> set[str]:
    """Return the sites banned for all or for this workflow."""
    return set(bans_in_force(workflow=workflow, now=now).values_list("site_id", flat=True))


def affected_by(site: Site) -> dict[str, Any]:
    """Return work and bans of the site, as shown before an operation."""
    waiting = MergeGroup.objects.filter(
        site=site.name, status=GroupStatus.PLANNED, dag__status__in=sorted(LIVE_DAG)
    )
    bans = SiteBan.objects.filter(site=site, removed_at__isnull=True).count()
    return {
        "Status": f"{site.status}{f': {site.status_reason}' if site.status_reason else ''}",
        "Slots in use": f"{site.running_slots:,} of {site.total_slots:,}",
        "Unfinished groups there": f"{waiting.count():,} of {_requests(waiting):,} requests",
        "Bans in force": bans,
    }


def _requests(groups: QuerySet[MergeGroup]) -> int:
    return groups.order_by().values("round__workflow").distinct().count()


def new_disabled_sites() -> QuerySet[Site]:
    """Return new sites of CRIC that are disabled until an operator decides about them."""
    return Site.objects.filter(status=SiteStatus.DISABLED, status_by=BY_CRIC, cric_state=CricState.ACTIVE)


def bans_for_all(*, now: datetime) -> QuerySet[SiteBan]:
    """Return the bans in force for all requests."""
    return SiteBan.objects.filter(workflow__isnull=True, removed_at__isnull=True, expires_at__gt=now)


def count_sites(*, now: datetime) -> dict[str, int]:
    """Count sites by status.

    `closed_by_cric`: not active in CRIC. `banned`: open for work but banned for all.
    """
    state = Case(
        When(~Q(cric_state=CricState.ACTIVE), then=Value("closed_by_cric")),
        When(
            open_for_work(now=now),
            then=Case(
                When(name__in=bans_for_all(now=now).values("site_id"), then=Value("banned")),
                default=Value(SiteStatus.ENABLED.value),
            ),
        ),
        default=F("status"),
    )
    rows = Site.objects.order_by().annotate(state=state).values_list("state")
    return dict(rows.annotate(n=Count("pk")))


def storage_at(site_name: str) -> str:
    """Return the output storage of a site: of its storages, the one with its name.

    A site without such a storage uses its own name.
    """
    storages = Site.objects.values_list("storage_elements", flat=True).filter(pk=site_name).first()
    return output_storage(site_name, storages or [])


def output_storage(site_name: str, storages: Sequence[str]) -> str:
    """Return which of its storages a site writes to: the one with its name, or its name if it has none."""
    return min(storages or [site_name], key=lambda storage: (_strangeness(storage, site_name), storage))


def _strangeness(storage: str, site_name: str) -> int:
    own = (site_name, f"{site_name}_Disk")
    return own.index(storage) if storage in own else 2 if storage.startswith(f"{site_name}_") else 3
