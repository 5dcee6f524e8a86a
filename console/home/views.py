"""The home page: one fragment with the items that need an operator and the state of all requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from console.fragments import Fragment, about
from console.home.attention import alerts, decisions
from console.home.fleet import status_lines
from console.home.flow import charts
from console.home.places import signs, site_loads
from console.home.queue import queue
from console.markup import Share
from requests_app.states import TAKES_CAPACITY, RequestStatus
from wms2_project.access.roles import Role
from wms2_project.changes import Topic


def _read(_of: str, role: Role) -> Mapping[str, Any]:
    now = timezone.now()
    lines = status_lines(now=now)
    return {
        "now": now,
        "open": [Share(line.name, line.count, line.tone) for line in lines if not line.unit],
        "held": sum(line.count for line in lines if line.status == RequestStatus.HELD),
        "running": sum(line.count for line in lines if line.status in TAKES_CAPACITY),
        "decisions": decisions(role),
        "alerts": list(alerts()),
        "lines": lines,
        "charts": charts(now=now),
        "sites": site_loads(),
        "signs": signs(now=now),
        "queue": queue(now=now),
    }


HOME = Fragment(
    name="home",
    template="console/home/fragment.html",
    read=_read,
    topics=about(Topic.FLEET, Topic.ADMISSION, Topic.ALERTS, Topic.SITES, Topic.AUDIT),
)
