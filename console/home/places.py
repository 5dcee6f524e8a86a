"""Running jobs by site, and the sites, schedds and services as a strip of statuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q
from django.urls import reverse

from console.markup import Share
from dags_app.models import Schedd
from dags_app.states import ScheddStatus
from sites_app.models import Site, SiteBan
from sites_app.states import SiteStatus
from wms2_project.console import address_of
from wms2_project.observation.health import services
from wms2_project.observation.heartbeat import queue_names, workers_per_queue

SHOWN = 12


@dataclass(frozen=True, slots=True)
class Sign:
    """The state of one part: text, tone and where to read more."""

    name: str
    text: str
    tone: str
    detail: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class SiteLoad:
    """The slots of one site."""

    name: str
    url: str
    running: int
    pending: int
    total: int

    @property
    def shares(self) -> list[Share]:
        return [
            Share("running", self.running, "primary"),
            Share("free", max(self.total - self.running, 0)),
            Share("waiting", self.pending, "info"),
        ]


def site_loads() -> list[SiteLoad]:
    """Return the sites with most running and waiting jobs."""
    rows = Site.objects.filter(Q(running_slots__gt=0) | Q(pending_slots__gt=0))
    return [
        SiteLoad(
            row.name, reverse("console:site", args=[row.name]),
            row.running_slots, row.pending_slots, row.total_slots,
        )
        for row in rows.order_by("-running_slots", "-pending_slots", "name")[:SHOWN]
    ]  # fmt: skip


def signs(*, now: datetime) -> list[Sign]:
    """Return the strip: services and workers, then schedds and sites that do not accept work."""
    return [*_services(), *_schedds(), *_sites(now)]


def _services() -> Iterator[Sign]:
    for part in services():
        text, tone = ("answers", "success") if part.works else ("does not answer", "danger")
        yield Sign(part.name, text, tone, part.detail)
    workers = workers_per_queue()
    idle = [name for name in queue_names() if workers is None or not workers[name]]
    if workers is None:
        yield Sign("workers", "unknown", "warning", "Redis does not answer")
    elif idle:
        yield Sign("workers", f"none for {', '.join(idle)}", "danger", "Start workers for these queues")
    else:
        yield Sign("workers", "serve every queue", "success")


def _schedds() -> Iterator[Sign]:
    for row in Schedd.objects.order_by("name"):
        url = address_of("admin:dags_app_schedd_change", row.pk)
        if row.silent_since is not None:
            yield Sign(str(row), "does not answer", "danger", f"since {row.silent_since:%F %R} UTC", url)
        elif row.status != ScheddStatus.ENABLED:
            yield Sign(str(row), str(row.status), "warning", row.reason, url)
        else:
            yield Sign(str(row), "answers", "success", "", url)


def _sites(now: datetime) -> Iterator[Sign]:
    statuses = Site.objects.order_by("name").values_list("name", "status", "status_reason", "drain_until")
    banned = SiteBan.objects.filter(removed_at__isnull=True, workflow__isnull=True, expires_at__gt=now)
    bans = dict(banned.values_list("site", "reason"))
    open_ = 0
    for name, status, reason, until in statuses:
        url = reverse("console:site", args=[name])
        if name in bans:
            yield Sign(name, "banned", "danger", bans[name], url)
        elif status in (SiteStatus.DRAINING, SiteStatus.MAINTENANCE):  # disabled sites are permanent
            end = f" until {until:%F %R} UTC" if until else ""
            yield Sign(name, f"{status}{end}", "warning", reason, url)
        elif status == SiteStatus.ENABLED:
            open_ += 1
    yield Sign(f"{open_:,} sites", "enabled", "success", "", reverse("console:sites"))
