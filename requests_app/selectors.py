"""Reading requests: timeline, queue, the state of the loop. A handful of aggregate queries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, Min, Q, QuerySet
from django.utils import timezone

from requests_app import admission
from requests_app.models import Request, TimelineEntry
from requests_app.states import SWEPT, TAKES_CAPACITY, TERMINAL, RequestStatus
from wms2_project.errors import NotFound


@dataclass(frozen=True, slots=True)
class AdmissionQueue:
    """The queue as operators see it."""

    active_dags: int
    max_active_dags: int
    queued_workflows: int
    paused: bool
    pause_reason: str
    next_in_queue: Request | None


def request_by_name(name: str, *, bare: bool = False) -> Request:
    """Return the request, with its workflow unless `bare`; raise NotFound if there is none."""
    rows = Request.objects.all() if bare else Request.objects.select_related("workflow")
    try:
        return rows.get(request_name=name)
    except Request.DoesNotExist as error:
        raise NotFound(f"There is no request named {name}") from error


def owners_of(request: Request) -> frozenset[str]:
    """The names of those whose request it is: who asked for it and who sent it in."""
    return frozenset({request.requestor, request.submitted_by.removeprefix("user:")})


def requestors_of(workflows: Collection[UUID]) -> dict[UUID, str]:
    """Whose request each workflow is: of a document that was sent in, the one who sent it.

    A document names a requestor, which its author may choose freely; what ReqMgr2 names is believed.
    """
    rows = Request.objects.filter(workflow__in=workflows)
    return {
        workflow: requestor if source == "reqmgr2" else sender.removeprefix("user:")
        for workflow, source, requestor, sender in rows.values_list(
            "workflow", "source", "requestor", "submitted_by"
        )
    }


def timeline_of(request: Request) -> QuerySet[TimelineEntry]:
    """Every status change, edit and action, oldest first."""
    return TimelineEntry.objects.filter(request=request).order_by("at", "id")


def admission_queue() -> AdmissionQueue:
    """Capacity, and who is next."""
    config = admission.limits()
    counts = Request.objects.filter(status__in=sorted(TAKES_CAPACITY | {RequestStatus.QUEUED})).aggregate(
        active=Count("pk", filter=Q(status__in=sorted(TAKES_CAPACITY))),
        queued=Count("pk", filter=Q(status=RequestStatus.QUEUED)),
    )
    return AdmissionQueue(
        active_dags=counts["active"],
        max_active_dags=config.max_active_dags,
        queued_workflows=counts["queued"],
        paused=config.paused,
        pause_reason=config.pause_reason,
        next_in_queue=admission.line().order_by("-rank", "created_at").first(),
    )


def position_in_queue(request: Request) -> int | None:
    """1 for the next to be admitted; None when it is not queued, or when another gate stops it."""
    return admission.ahead_of(request) + 1 if admission.in_line(request) else None


_WORKFLOW_STATUS = {
    RequestStatus.NEW: "new",
    RequestStatus.SUBMITTED: "new",
    RequestStatus.QUEUED: "new",
}


def workflow_status(status: RequestStatus | str) -> str:
    """A workflow has no status of its own: it is new until admitted, then what its request is."""
    return _WORKFLOW_STATUS.get(RequestStatus(status), str(status))


def by_status(rows: QuerySet[Any]) -> dict[str, int]:
    """How many of the rows there are in each status."""
    return {row["status"]: row["n"] for row in rows.order_by().values("status").annotate(n=Count("pk"))}


def open_requests() -> QuerySet[Request]:
    """Those that have not ended. What has is never counted for a page: that grows for ever."""
    return Request.objects.exclude(status__in=sorted(TERMINAL))


def sweep_lag_sec(*, now: datetime) -> float:
    """For how long the oldest request that is due has waited for a worker."""
    oldest = _due(now).aggregate(oldest=Min("next_check_at"))["oldest"]
    return max(0.0, (now - oldest).total_seconds()) if oldest else 0.0


def lifecycle_status() -> dict[str, Any]:
    """Is the loop alive: what is due, for how long the oldest has been waiting, who works."""
    now = timezone.now()
    swept = Request.objects.filter(status__in=sorted(SWEPT))
    return {
        "due": _due(now).count(),
        "sweep_lag_sec": round(sweep_lag_sec(now=now), 1),
        "in_work": swept.exclude(owner="").count(),
        "failing": swept.filter(attempt__gt=0).count(),
        "by_status": by_status(open_requests()),
    }


def _due(now: datetime) -> QuerySet[Request]:
    return Request.objects.filter(status__in=sorted(SWEPT), next_check_at__lte=now, owner="")
