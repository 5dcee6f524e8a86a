"""The health page: components, queues and workers, leases, and the sweep."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.encoding import iri_to_uri
from django.utils.html import format_html

from console.fragments import Fragment, about
from console.page import Page
from outputs_app.models import OutputBlock
from requests_app.models import Request
from requests_app.selectors.requests import lifecycle_status
from requests_app.states import SWEPT
from wms2_project.access.roles import Role, role_of
from wms2_project.changes import Topic
from wms2_project.leases import WORKED_BY
from wms2_project.observation.health import health
from wms2_project.observation.heartbeat import queue_lengths, queue_names, workers_per_queue

SHOWN = 50


def _read(_of: str, role: Role) -> Mapping[str, Any]:
    now = timezone.now()
    parts = health()
    waiting, workers = queue_lengths() or {}, workers_per_queue() or {}
    expired = now - timedelta(seconds=settings.LEASE_TTL_SEC)
    leased = Request.objects.filter(status__in=sorted(SWEPT), owner__startswith=WORKED_BY)
    blocks = OutputBlock.objects.filter(owner__startswith=WORKED_BY)
    failing = Request.objects.filter(status__in=sorted(SWEPT), attempt__gt=0).order_by("-attempt")
    return {
        "parts": sorted(parts, key=lambda part: (part.works, part.name)),
        "broken": [part for part in parts if not part.works],
        "queues": [(name, waiting.get(name), workers.get(name)) for name in queue_names()],
        "lifecycle": lifecycle_status(),
        "leases": leased.only("request_name", "status", "owner", "heartbeat_at")[:SHOWN],
        "block_leases": blocks.count(),
        "expired": expired,
        "failing": failing.only("request_name", "status", "attempt", "last_error", "last_error_at")[:SHOWN],
        "flower": bool(settings.FLOWER_URL) and role >= Role.OPERATOR,
        "now": now,
    }


def flower_view(request: HttpRequest) -> HttpResponse:
    """Lead operators to a page of Flower, which accepts their session.

    Not by a redirect: after the form of the login, `form-action` of the policy blocks those to other origins.
    """
    if role_of(request.user) < Role.OPERATOR:
        raise PermissionDenied
    if not settings.FLOWER_URL:
        raise Http404("FLOWER_URL is not set")
    page = request.GET.get("page", "")
    url = settings.FLOWER_URL.rstrip("/") + iri_to_uri(page if page.startswith("/") else "/")
    body = format_html('<!DOCTYPE html><title>Flower</title><a href="{}">Continue to Flower</a>', url)
    return HttpResponse(body, headers={"Refresh": f"0; url={url}"})


HEALTH = Page(
    fragment=Fragment(
        name="health",
        template="console/health/fragment.html",
        read=_read,
        topics=about(Topic.FLEET, Topic.SITES, Topic.ALERTS),
    ),
    title="Health",
    about="Services, queues, workers, leases and the sweep",
)
