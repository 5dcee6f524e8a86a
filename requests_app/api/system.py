"""System status and state of the lifecycle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from django.utils import timezone
from rest_framework.request import Request as HttpRequest

from dags_app.models import DAG
from dags_app.states import LIVE_DAG
from outputs_app.models import OutputBlock
from outputs_app.pipeline import MOVING
from requests_app.selectors.requests import (
    AdmissionQueue,
    Lifecycle,
    admission_queue,
    by_status,
    lifecycle_status,
    open_requests,
)
from requests_app.services.alerts import open_alerts
from sites_app.selectors import count_sites
from wms2_project.access.roles import Role
from wms2_project.api.bodies import answers
from wms2_project.api.views import ApiView
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


class StatusView(ApiView):
    """Counts of open objects by status. Finished ones are not counted."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @answers("status")
    def get(self, request: HttpRequest) -> Status:
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


class LifecycleView(ApiView):
    """State of the lifecycle."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @answers("lifecycle_status")
    def get(self, request: HttpRequest) -> Lifecycle:
        """Return due, overdue and running requests."""
        return lifecycle_status()
