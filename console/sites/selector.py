"""Content of the site pages, read in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncHour

from console.sites.slot_history import day_chart, month_chart, running_lines
from dags_app.models import FailureCluster, MergeGroup
from dags_app.states import LIVE_DAG, GroupStatus
from requests_app.models import Alert
from sites_app.models import Site, SiteBan
from sites_app.selectors import site_by_name
from sites_app.services.site_settings import storage_used
from sites_app.states import CricState, SiteStatus

HOURS = 24
SHOWN = 20
FULL = 0.95  # of the storage
TONES = {
    SiteStatus.ENABLED: "success", SiteStatus.DRAINING: "warning", SiteStatus.MAINTENANCE: "warning",
    SiteStatus.DISABLED: "danger",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cause:
    """Failed jobs of one exit code at a site."""

    exit_code: int
    category: str
    jobs: int


@dataclass(slots=True)
class SiteLine:
    """One site: its slots and what happened there in the last day."""

    site: Site
    tone: str
    label: str
    bans: int = 0
    banned_for_all: bool = False
    storage: float | None = None
    jobs_done: int = 0
    causes: list[Cause] = field(default_factory=list)
    running: list[int] = field(default_factory=list)  # cores by hour of the last day; empty if not measured

    @property
    def jobs_failed(self) -> int:
        return sum(cause.jobs for cause in self.causes)

    @property
    def failure_percent(self) -> float | None:
        """Failed jobs per hundred; None if no job ended."""
        ended = self.jobs_done + self.jobs_failed
        return 100 * self.jobs_failed / ended if ended else None

    @property
    def busy_percent(self) -> float:
        return 100 * self.site.running_slots / self.site.total_slots if self.site.total_slots else 0.0

    @property
    def storage_percent(self) -> float | None:
        return None if self.storage is None else 100 * self.storage

    @property
    def storage_full(self) -> bool:
        return self.storage is not None and self.storage >= FULL


def site_lines(*, now: datetime, names: Collection[str] | None = None) -> list[SiteLine]:
    """Return all sites, or these: those with most slots first."""
    rows = Site.objects.all() if names is None else Site.objects.filter(name__in=names)
    in_force = Q(bans__removed_at__isnull=True, bans__expires_at__gt=now)
    for_all = in_force & Q(bans__workflow__isnull=True)
    lines = {
        site.name: _line(site)
        for site in rows.annotate(
            n_bans=Count("bans", filter=in_force), n_all=Count("bans", filter=for_all)
        ).order_by("-total_slots", "name")
    }
    since = now - timedelta(hours=HOURS)
    done = MergeGroup.objects.filter(finished_at__gte=since, status=GroupStatus.COLLECTED)
    for site, jobs in done.order_by().values_list("site").annotate(jobs=Sum("jobs")):
        if site in lines:
            lines[site].jobs_done = jobs
    failed = FailureCluster.objects.filter(created_at__gte=since).order_by()
    by_cause = failed.values_list("site", "exit_code", "category").annotate(n=Sum("jobs")).order_by("-n")
    for site, exit_code, category, jobs in by_cause:
        if site in lines:
            lines[site].causes.append(Cause(exit_code, category, jobs))
    for site, hours in running_lines(lines, now=now).items():
        lines[site].running = hours
    return list(lines.values())


def _line(site: Any) -> SiteLine:
    label, tone = site.status, TONES[SiteStatus(site.status)]
    if site.cric_state != CricState.ACTIVE:
        label, tone = f"{site.cric_state} in CRIC", "danger"
    elif site.n_all:
        label, tone = "banned", "danger"
    return SiteLine(
        site, tone, label, bans=site.n_bans, banned_for_all=bool(site.n_all),
        storage=storage_used(site.config_data),
    )  # fmt: skip


def site_detail(name: str, *, now: datetime) -> dict[str, Any]:
    """Return one site with its history, bans, unfinished work and alerts. Raise NotFound if there is none."""
    site = site_by_name(name)
    (line,) = site_lines(now=now, names=[name])
    groups = MergeGroup.objects.filter(
        site=name, status=GroupStatus.PLANNED, dag__status__in=sorted(LIVE_DAG)
    )
    by_request = groups.order_by().values_list("round__workflow__request_name")
    bans = SiteBan.objects.filter(site=site).select_related("workflow").order_by("-created_at")
    return {
        "line": line,
        "site": site,
        "chart": _history(name, now),
        "cores_day": day_chart(name, now=now),
        "cores_month": month_chart(name, now=now),
        "bans": bans[:SHOWN],
        "now": now,
        "requests": list(by_request.annotate(n=Count("id")).order_by("-n")[:SHOWN]),
        "alerts": Alert.objects.filter(site=name, closed_at__isnull=True).order_by("-created_at")[:SHOWN],
        "failures": FailureCluster.objects.filter(site=name, created_at__gte=now - timedelta(hours=HOURS))
        .select_related("workflow")
        .order_by("-jobs")[:SHOWN],
    }


def _history(name: str, now: datetime) -> dict[str, Any]:
    """Return jobs done and failed per hour of the last day, as charts.js draws them."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    hours = [hour - timedelta(hours=back) for back in range(HOURS - 1, -1, -1)]
    groups = MergeGroup.objects.filter(site=name, finished_at__gte=hours[0], status=GroupStatus.COLLECTED)
    clusters = FailureCluster.objects.filter(site=name, created_at__gte=hours[0])
    done, failed = _per_hour(groups, "finished_at"), _per_hour(clusters, "created_at")
    return {
        "kind": "bar",
        "stacked": True,
        "unit": "jobs",
        "labels": [f"{at:%H:00}" for at in hours],
        "series": [
            {"label": "done", "tone": "success", "data": [done.get(at, 0) for at in hours]},
            {"label": "failed", "tone": "danger", "data": [failed.get(at, 0) for at in hours]},
        ],
    }


def _per_hour(rows: QuerySet[Any], column: str) -> dict[datetime, int]:
    hours = rows.annotate(hour=TruncHour(column)).order_by().values_list("hour")
    return dict(hours.annotate(n=Sum("jobs")))
