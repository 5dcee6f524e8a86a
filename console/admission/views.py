"""The admission page: capacity, the queue with expected starts, and who uses the capacity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Count
from django.http import HttpRequest
from django.utils import timezone

from console.fragments import Fragment, about
from console.page import Page
from requests_app.admission import limits
from requests_app.models import Request
from requests_app.selectors.forecast import queued_rows
from requests_app.selectors.requests import admission_queue
from requests_app.states import TAKES_CAPACITY, RequestStatus
from wms2_project.access.roles import Role, role_of
from wms2_project.changes import Topic
from wms2_project.console import address_of

SHOWN = 100


def _read(_of: str, role: Role) -> Mapping[str, Any]:
    queued = Request.objects.filter(status=RequestStatus.QUEUED).order_by("-rank", "created_at", "id")
    page = list(queued.defer("request_data", "hold_evidence")[:SHOWN])
    rows = queued_rows(page, now=timezone.now())
    running = Request.objects.filter(status__in=sorted(TAKES_CAPACITY)).order_by()
    queue, config = admission_queue(), limits()
    return {
        "operates": role >= Role.OPERATOR,
        "queue": queue,
        "limits": config,
        "storage_percent": 100 * config.storage_critical_fraction,
        "free": max(queue.max_active_dags - queue.active_dags, 0),
        "percent": min(100 * queue.active_dags / max(queue.max_active_dags, 1), 100),
        "rows": list(zip(page, rows, strict=True)),
        "more": max(queue.queued_workflows - SHOWN, 0),
        "campaigns": running.values_list("campaign").annotate(n=Count("pk")).order_by("-n")[:10],
    }


def _buttons(request: HttpRequest, _of: str) -> Mapping[str, Any]:
    operates = role_of(request.user) >= Role.OPERATOR
    return {"edit_limits": address_of("admin:requests_app_admissionconfig_edit", 1) if operates else ""}


ADMISSION = Page(
    fragment=Fragment(
        name="admission",
        template="console/admission/fragment.html",
        read=_read,
        topics=about(Topic.ADMISSION, Topic.FLEET, Topic.AUDIT),
    ),
    title="Admission",
    about="The queue with positions and expected starts, limits and pause",
    template="console/admission.html",
    person=_buttons,
)
