"""Console overview: open requests, pending decisions, alerts and the admission queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Count
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dags_app.models import Schedd
from dags_app.states import ScheddStatus
from requests_app.models import Alert, Request
from requests_app.selectors.requests import admission_queue
from requests_app.selectors.statistics import throughput_metrics
from requests_app.services.alerts import unacknowledged
from requests_app.states import TERMINAL, WHY, RequestStatus
from sites_app.models import Site
from sites_app.states import SiteStatus
from wms2_project.access.roles import Role, role_of
from wms2_project.console import Table, age_of, link

_SHOWN = 15


@dataclass(frozen=True, slots=True)
class StatusCount:
    """Number of requests in one open status."""

    name: str
    count: int
    why: str
    url: str


def add_overview(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the figures of the overview page. Called by unfold."""
    if role_of(request.user) < Role.VIEWER:
        return context
    (day,) = throughput_metrics(now=timezone.now(), hours=24, bucket_minutes=24 * 60)
    return context | {
        "counts": _counts(), "queue": admission_queue(), "held": _held(), "alerts": _alerts(),
        "trouble": list(_trouble()), "day": day,
    }  # fmt: skip


def _counts() -> list[StatusCount]:
    rows = Request.objects.exclude(status__in=sorted(TERMINAL)).order_by().values("status")
    counted = {row["status"]: row["n"] for row in rows.annotate(n=Count("pk"))}
    url = reverse("admin:requests_app_request_changelist")
    return [
        StatusCount(
            name=status.replace("_", " "),
            count=counted.get(status, 0),
            why=WHY[status],
            url=f"{url}?status__exact={status}",
        )
        for status in RequestStatus
        if status not in TERMINAL
    ]


def _trouble() -> Iterator[SafeString]:
    """Yield schedds and sites that accept no work."""
    for schedd in Schedd.objects.filter(silent_since__isnull=False).order_by("name"):
        message = f"{schedd} has not answered since {schedd.silent_since:%F %R}"
        yield link(message, "admin:dags_app_schedd_change", schedd.pk)
    for schedd in Schedd.objects.filter(status=ScheddStatus.DRAINING).order_by("name"):
        yield link(f"{schedd} is draining", "admin:dags_app_schedd_change", schedd.pk)
    passing = (SiteStatus.DRAINING, SiteStatus.MAINTENANCE)  # disabled sites are permanent, so not shown
    for site in Site.objects.filter(status__in=passing).order_by("name")[:_SHOWN]:
        yield link(f"{site} is {site.status}", "admin:sites_app_site_change", site.pk)


def _held() -> Table:
    now = timezone.now()
    rows = Request.objects.filter(status=RequestStatus.HELD).order_by("status_since")
    return {
        "headers": ["held request", "campaign", "held for", "reason"],
        "rows": [
            [_to(row), row.campaign, age_of(row.status_since, now=now), _short(row.last_error)]
            for row in rows.only("request_name", "campaign", "status_since", "last_error")[:_SHOWN]
        ],
    }


def _alerts() -> Table:
    now = timezone.now()
    rows = (
        Alert.objects.filter(unacknowledged())
        .select_related("request")
        .order_by("-created_at", "-id")[:_SHOWN]
    )
    return {
        "headers": ["alert", "about", "open for", "message"],
        "rows": [
            [
                row.kind.replace("_", " "),
                _to(row.request) if row.request is not None else row.site,
                age_of(row.created_at, now=now),
                _short(row.message),
            ]
            for row in rows
        ],
    }


def _short(text: str) -> SafeString:
    return format_html('<span class="wms2-two-lines" title="{}">{}</span>', text, text)


def _to(row: Request) -> Any:
    return link(row.request_name, "admin:requests_app_request_change", row.pk)
