"""Above the list of requests: how many are in each status, as links that filter the list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.urls import reverse
from django.utils import timezone

from console.fragments import Fragment, about
from console.home.fleet import status_lines
from requests_app.states import RequestStatus
from wms2_project.access.roles import Role
from wms2_project.changes import Topic


def _read(of: str, _role: Role) -> Mapping[str, Any]:
    return {
        "lines": [line for line in status_lines(now=timezone.now()) if line.count or line.unit],
        "chosen": of if of in set(map(str, RequestStatus)) else "",
        "all": reverse("admin:requests_app_request_changelist"),
    }


REQUESTS = Fragment(
    name="requests",
    template="console/requests/fragment.html",
    read=_read,
    topics=about(Topic.FLEET),
)
