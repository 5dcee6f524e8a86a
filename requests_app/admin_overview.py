"""The console's first page: what is open, what waits for a person, who is next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from requests_app.models import Alert, Request
from requests_app.selectors import AdmissionQueue, admission_queue
from requests_app.states import TERMINAL, WHY, RequestStatus
from wms2_project.console import Table, age_of, clipped, link

_SHOWN = 15


@dataclass(frozen=True, slots=True)
class StatusCount:
    """How many requests are in one open status."""

    name: str
    count: int
    why: str
    url: str


def add_overview(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Give the first page its figures; called by unfold."""
    if not request.user.is_authenticated:
        return context
    return context | {"counts": _counts(), "queue": _queue(), "held": _held(), "alerts": _alerts()}


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


def _queue() -> AdmissionQueue:
    return admission_queue()


def _held() -> Table:
    now = timezone.now()
    rows = Request.objects.filter(status=RequestStatus.HELD).order_by("status_since")
    return {
        "headers": ["held request", "campaign", "for", "because"],
        "rows": [
            [_to(row), row.campaign, age_of(row.status_since, now=now), clipped(row.last_error)]
            for row in rows.only("request_name", "campaign", "status_since", "last_error")[:_SHOWN]
        ],
    }


def _alerts() -> Table:
    now = timezone.now()
    rows = Alert.objects.filter(closed_at__isnull=True).select_related("request").order_by("-id")[:_SHOWN]
    return {
        "headers": ["alert", "request", "for", "seen", "message"],
        "rows": [
            [
                row.kind,
                _to(row.request),
                age_of(row.created_at, now=now),
                f"{row.count}×",
                clipped(row.message),
            ]
            for row in rows
        ],
    }


def _to(row: Request) -> Any:
    return link(row.request_name, "admin:requests_app_request_change", row.pk)
