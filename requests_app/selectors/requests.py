"""Read requests, their timeline, the admission queue and the state of the lifecycle."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.db.models import Count, Min, Q, QuerySet, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from dags_app.models import DAG
from dags_app.states import LIVE_DAG
from outputs_app.models import OutputDataset
from outputs_app.selectors import summary
from requests_app import admission
from requests_app.models import Request, TimelineEntry
from requests_app.selectors.progress import progress_of
from requests_app.states import STATUSES, SWEPT, TAKES_CAPACITY, TERMINAL, RequestStatus
from wms2_project.errors import NotFound


@dataclass(frozen=True, slots=True)
class NextInQueue:
    """The next request to be admitted."""

    request_name: str
    priority: int
    rank: float
    queued_since: datetime


@dataclass(frozen=True, slots=True)
class AdmissionQueue:
    """Used capacity and the next request."""

    active_dags: int
    max_active_dags: int
    queued_workflows: int
    paused: bool
    pause_reason: str
    next_in_queue: NextInQueue | None


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """State of the lifecycle."""

    due: Annotated[int, "Due requests that wait for a worker."]
    sweep_lag_sec: Annotated[float, "Waiting time of the oldest due request (s)."]
    in_work: int
    failing: Annotated[int, "Requests whose last step failed."]
    by_status: Annotated[dict[str, int], "Requests that have not ended, by status."]


def request_by_name(name: str, *, bare: bool = False) -> Request:
    """Return the request, with its workflow unless `bare`. Raise NotFound if it does not exist."""
    rows = Request.objects.all() if bare else Request.objects.select_related("workflow")
    try:
        return rows.get(request_name=name)
    except Request.DoesNotExist as error:
        raise NotFound(f"There is no request named {name}") from error


def owners_of(request: Request) -> frozenset[str]:
    """Return the owners of the request: its requestor and its submitter."""
    return frozenset({request.requestor, request.submitted_by.removeprefix("user:")})


def requestors_of(workflows: Collection[UUID]) -> dict[UUID, str]:
    """Return the responsible person of each workflow: the submitter, or the requestor of a ReqMgr2 request.

    The requestor of a submitted document may be chosen freely by its author; that of ReqMgr2 is trusted.
    """
    rows = Request.objects.filter(workflow__in=workflows)
    return {
        workflow: requestor if source == "reqmgr2" else sender.removeprefix("user:")
        for workflow, source, requestor, sender in rows.values_list(
            "workflow", "source", "requestor", "submitted_by"
        )
    }


def timeline_of(request: Request) -> QuerySet[TimelineEntry]:
    """Return status changes, edits and actions, oldest first."""
    return TimelineEntry.objects.filter(request=request).order_by("at", "id")


def admission_queue() -> AdmissionQueue:
    """Return capacity and the next request."""
    config = admission.limits()
    counts = Request.objects.filter(status__in=sorted(TAKES_CAPACITY | {RequestStatus.QUEUED})).aggregate(
        active=Count("pk", filter=Q(status__in=sorted(TAKES_CAPACITY))),
        queued=Count("pk", filter=Q(status=RequestStatus.QUEUED)),
    )
    line = admission.line().order_by("-rank", "created_at")
    first = line.values_list("request_name", "priority", "rank", "status_since").first()
    return AdmissionQueue(
        active_dags=counts["active"],
        max_active_dags=config.max_active_dags,
        queued_workflows=counts["queued"],
        paused=config.paused,
        pause_reason=config.pause_reason,
        next_in_queue=NextInQueue(*first) if first else None,
    )


def position_in_queue(request: Request) -> int | None:
    """Return the queue position, 1 being next; None if not queued or blocked by another gate."""
    return admission.ahead_of(request) + 1 if admission.in_line(request) else None


def workflow_status(status: RequestStatus | str) -> str:
    """Derive the workflow status: new until admission, then the status of the request."""
    return "new" if STATUSES[RequestStatus(status)].public == "accepted" else str(status)


def by_status(rows: QuerySet[Any]) -> dict[str, int]:
    """Count the rows by status."""
    return {row["status"]: row["n"] for row in rows.order_by().values("status").annotate(n=Count("pk"))}


def open_requests() -> QuerySet[Request]:
    """Return requests that have not ended. Pages never count ended ones, which grow without limit."""
    return Request.objects.exclude(status__in=sorted(TERMINAL))


def reads_dataset(dataset: str) -> Q:
    """Return the condition that a request reads the dataset as one of its inputs."""
    named = Q(workflow__input_dataset=dataset)
    return named | Q(workflow__further_input_datasets__contains=[dataset])


def unfinished_readers(*, dataset: str) -> list[str]:
    """Return the names of the requests that have not ended and read the dataset, also as secondary input or
    file by file from the request that writes it.
    """
    secondary = Q(workflow__secondary_input_datasets__contains=[dataset])
    writers = OutputDataset.objects.filter(dataset_name=dataset).values("workflow")
    streamed = Q(workflow__input_from__in=writers)
    readers = open_requests().filter(reads_dataset(dataset) | secondary | streamed)
    return list(readers.order_by("request_name").values_list("request_name", flat=True))


def sweep_lag_sec(*, now: datetime) -> float:
    """Return how long the oldest due request has been waiting for a worker."""
    oldest = _due(now).aggregate(oldest=Min("next_check_at"))["oldest"]
    return max(0.0, (now - oldest).total_seconds()) if oldest else 0.0


def lifecycle_status() -> Lifecycle:
    now = timezone.now()
    swept = Request.objects.filter(status__in=sorted(SWEPT))
    return Lifecycle(
        due=_due(now).count(),
        sweep_lag_sec=round(sweep_lag_sec(now=now), 1),
        in_work=swept.exclude(owner="").count(),
        failing=swept.filter(attempt__gt=0).count(),
        by_status=by_status(open_requests()),
    )


def _due(now: datetime) -> QuerySet[Request]:
    return Request.objects.filter(status__in=sorted(SWEPT), next_check_at__lte=now, owner="")


_NODES = {name: Coalesce(Sum(f"nodes_{name}"), 0) for name in ("running", "idle", "held")}


def affected_by(request: Request) -> Mapping[str, Any]:
    """Return the jobs in the queue, the finished work and the outputs of the request."""
    progress = progress_of(request)
    live = DAG.objects.filter(workflow=request.workflow_id, status__in=sorted(LIVE_DAG))
    jobs = live.aggregate(**_NODES)
    outputs = summary(workflow=request.workflow)
    found = {
        "Status": f"{request.status.replace('_', ' ')} since {request.status_since:%F %R} UTC",
        "Jobs in the queue": f"{jobs['running']:,} running, {jobs['idle']:,} idle, {jobs['held']:,} held",
        "Finished groups": f"{progress.groups_done:,} of {progress.groups_total:,}",
        "Processed events": f"{progress.events_done:,} of {progress.events_total:,}",
    }
    if outputs.blocks:
        found["Output datasets"] = ", ".join(request.workflow.output_datasets)
        found["Outputs"] = (
            f"{outputs.files:,} files in {outputs.blocks:,} blocks, {outputs.announced:,} of them announced"
        )
    return found
