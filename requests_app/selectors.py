"""Reading requests: progress, timeline, queue. A handful of aggregate queries, never one per job or row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, Min, Q, QuerySet, Sum
from django.utils import timezone

from dags_app.models import InputFile, MergeGroup
from dags_app.states import FileState, GroupStatus
from outputs_app.models import OutputBlock, OutputFile
from outputs_app.states import BlockStatus
from requests_app import admission
from requests_app.models import Request, StatusTransition
from requests_app.states import SWEPT, RequestStatus


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a request is, by events. `events_total` grows while rounds are still being planned."""

    fraction: float
    events_total: int
    events_done: int
    events_written: int
    groups_total: int
    groups_done: int
    jobs_total: int
    files: int
    blocks: int
    blocks_announced: int
    estimated_completion: datetime | None


@dataclass(frozen=True, slots=True)
class AdmissionQueue:
    """The queue as operators see it."""

    active_dags: int
    max_active_dags: int
    queued_workflows: int
    paused: bool
    pause_reason: str
    next_in_queue: Request | None


def progress_of(request: Request) -> Progress:
    """How far this request is."""
    return progress_of_many([request])[request.pk]


def progress_of_many(requests: Sequence[Request]) -> dict[UUID, Progress]:
    """How far each of these requests is, in four queries however many they are."""
    workflows = [request.workflow_id for request in requests]
    inputs = _sums(
        InputFile.objects.filter(workflow__in=workflows),
        "workflow",
        total=Sum("events"),
        done=Sum("events", filter=Q(state=FileState.PROCESSED)),
    )
    groups = _sums(
        MergeGroup.objects.filter(round__workflow__in=workflows),
        "round__workflow",
        groups=Count("id"),
        groups_done=Count("id", filter=Q(status=GroupStatus.COLLECTED)),
        jobs=Sum("jobs"),
        read=Sum("events_read"),
        written=Sum("events_written"),
        planned=Sum("input_events"),
        began=Min("round__created_at"),
    )
    blocks = _sums(
        OutputBlock.objects.filter(dataset__workflow__in=workflows),
        "dataset__workflow",
        blocks=Count("id"),
        announced=Count("id", filter=Q(status=BlockStatus.ANNOUNCED)),
    )
    files = _sums(
        OutputFile.objects.filter(block__dataset__workflow__in=workflows),
        "block__dataset__workflow",
        files=Count("id"),
    )
    return {
        request.pk: _progress(
            request, *(part.get(request.workflow_id, {}) for part in (inputs, groups, blocks, files))
        )
        for request in requests
    }


def _sums(rows: QuerySet[Any], key: str, **sums: Any) -> dict[UUID, dict[str, Any]]:
    return {row[key]: row for row in rows.order_by().values(key).annotate(**sums)}


def _progress(
    request: Request,
    inputs: dict[str, Any],
    groups: dict[str, Any],
    blocks: dict[str, Any],
    files: dict[str, Any],
) -> Progress:
    generates = not inputs
    total = (groups.get("planned") if generates else inputs.get("total")) or 0
    done = (groups.get("read") if generates else inputs.get("done")) or 0
    finished = request.status == RequestStatus.COMPLETED
    fraction = 1.0 if finished else min(done / total, 1.0) if total else 0.0
    return Progress(
        fraction=round(fraction, 4),
        events_total=total,
        events_done=done,
        events_written=groups.get("written") or 0,
        groups_total=groups.get("groups") or 0,
        groups_done=groups.get("groups_done") or 0,
        jobs_total=groups.get("jobs") or 0,
        files=files.get("files") or 0,
        blocks=blocks.get("blocks") or 0,
        blocks_announced=blocks.get("announced") or 0,
        estimated_completion=None if finished else _estimate(groups.get("began"), fraction),
    )


def _estimate(began: datetime | None, fraction: float) -> datetime | None:
    """When it will be done if it goes on like this; no guess before a twentieth is done."""
    if began is None or fraction < 0.05 or fraction >= 1:
        return None
    now = timezone.now()
    return now + timedelta(seconds=(now - began).total_seconds() * (1 - fraction) / fraction)


def timeline_of(request: Request) -> QuerySet[StatusTransition]:
    """Every status change, oldest first."""
    return request.transitions.order_by("id")


def admission_queue() -> AdmissionQueue:
    """Capacity, and who is next."""
    config = admission.limits()
    queued = Request.objects.filter(status=RequestStatus.QUEUED)
    return AdmissionQueue(
        active_dags=admission.active_count(),
        max_active_dags=config.max_active_dags,
        queued_workflows=queued.count(),
        paused=config.paused,
        pause_reason=config.pause_reason,
        next_in_queue=queued.order_by("-rank", "created_at").first(),
    )


def position_in_queue(request: Request) -> int | None:
    """1 for the next to be admitted; None when it is not queued."""
    return admission.ahead_of(request) + 1 if request.status == RequestStatus.QUEUED else None


_WORKFLOW_STATUS = {
    RequestStatus.NEW: "new",
    RequestStatus.SUBMITTED: "new",
    RequestStatus.QUEUED: "new",
}


def workflow_status(status: RequestStatus | str) -> str:
    """A workflow has no status of its own: it is new until admitted, then what its request is."""
    return _WORKFLOW_STATUS.get(RequestStatus(status), str(status))


def lifecycle_status() -> dict[str, Any]:
    """Is the loop alive: what is due, for how long the oldest has been waiting, who works."""
    now = timezone.now()
    open_requests = Request.objects.filter(status__in=sorted(SWEPT))
    due = open_requests.filter(next_check_at__lte=now, owner="")
    oldest = due.aggregate(oldest=Min("next_check_at"))["oldest"]
    by_status = Request.objects.order_by().values("status").annotate(count=Count("id"))
    return {
        "due": due.count(),
        "sweep_lag_sec": round((now - oldest).total_seconds(), 1) if oldest else 0.0,
        "in_work": open_requests.exclude(owner="").count(),
        "failing": open_requests.filter(attempt__gt=0).count(),
        "by_status": {row["status"]: row["count"] for row in by_status},
    }
