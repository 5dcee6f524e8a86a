"""System status and state of the lifecycle."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils import timezone
from rest_framework.request import Request as HttpRequest

from dags_app.models import DAG
from dags_app.states import LIVE_DAG
from outputs_app.models import OutputBlock
from outputs_app.pipeline import MOVING
from requests_app.selectors import requests
from requests_app.selectors.requests import (
    AdmissionQueue,
    Lifecycle,
    admission_queue,
    by_status,
    open_requests,
)
from requests_app.services.alerts import open_alerts
from sites_app.selectors import count_sites
from wms2_project.api.reads import reads
from wms2_project.observation.health import Part, health


@dataclass(frozen=True, slots=True)
class Status:
    """Counts of open objects by status."""

    requests: dict[str, int]
    dags: dict[str, int]
    blocks: dict[str, int]
    sites: dict[str, int]
    alerts: dict[str, int]
    admission: AdmissionQueue
    parts: list[Part]


@reads("status")
def status(request: HttpRequest) -> Status:
    """Return open requests, live DAGs, moving blocks, sites, the queue, and component health."""
    return Status(
        requests=by_status(open_requests()),
        dags=by_status(DAG.objects.filter(status__in=sorted(LIVE_DAG))),
        blocks=by_status(OutputBlock.objects.filter(status__in=sorted(MOVING))),
        sites=count_sites(now=timezone.now()),
        alerts=open_alerts(),
        admission=admission_queue(),
        parts=health(),
    )


@reads("lifecycle/status")
def lifecycle_status(request: HttpRequest) -> Lifecycle:
    """Return due, overdue and running requests."""
    return requests.lifecycle_status()
