"""The alerts page: open alerts by kind, acknowledged alerts, and alerts closed in the last day."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from itertools import groupby
from typing import Any

from django.utils import timezone

from console.fragments import Fragment, about
from console.page import Page
from requests_app.guide import ALERTS as GUIDE
from requests_app.models import Alert
from wms2_project.access.roles import Role
from wms2_project.changes import Topic

SHOWN = 200


def _read(_of: str, role: Role) -> Mapping[str, Any]:
    now = timezone.now()
    rows = Alert.objects.select_related("request")
    opened = list(rows.filter(closed_at__isnull=True).order_by("kind", "-created_at", "-id")[:SHOWN])
    waiting = [alert for alert in opened if alert.acknowledged_at is None]
    kinds = [
        (kind, GUIDE.get(kind), list(found)) for kind, found in groupby(waiting, key=lambda one: one.kind)
    ]
    closed = rows.filter(closed_at__gte=now - timedelta(days=1)).order_by("-closed_at", "-id")
    return {
        "kinds": kinds,
        "waiting": len(waiting),
        "acknowledged": [alert for alert in opened if alert.acknowledged_at is not None],
        "closed": closed[:50],
        "operates": role >= Role.OPERATOR,
    }


ALERTS = Page(
    fragment=Fragment(
        name="alerts", template="console/alerts/fragment.html", read=_read, topics=about(Topic.ALERTS)
    ),
    title="Alerts",
    about="Open alerts by kind, with what to do",
)
