"""The guide page: what to do about each alert and each hold. Alerts and holds link to their entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Count

from console.fragments import Fragment, about
from console.page import Page
from requests_app.guide import ALERTS, HOLDS, hold_entry
from requests_app.models import Alert, Request
from requests_app.states import RequestStatus
from wms2_project.access.roles import Role
from wms2_project.changes import Topic

MOST_HELD = 500


def _read(_of: str, _role: Role) -> Mapping[str, Any]:
    opened = Alert.objects.filter(closed_at__isnull=True).order_by().values_list("kind")
    alerts = dict(opened.annotate(n=Count("id")))
    held = dict.fromkeys(HOLDS, 0)
    rows = Request.objects.filter(status=RequestStatus.HELD).values_list("last_error", "hold_evidence")
    for reason, evidence in rows[:MOST_HELD]:
        held[hold_entry(reason, evidence).slug] += 1
    return {
        "parts": [
            ("Alerts", [(entry, alerts.get(slug, 0)) for slug, entry in ALERTS.items()]),
            ("Held requests", [(entry, held[slug]) for slug, entry in HOLDS.items()]),
        ],
    }


GUIDE = Page(
    fragment=Fragment(
        name="guide",
        template="console/guide/fragment.html",
        read=_read,
        topics=about(Topic.ALERTS, Topic.FLEET),
    ),
    title="Guide",
    about="What to do about each alert and each reason of a hold",
)
