"""System status and state of the lifecycle."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from dags_app.models import DAG
from dags_app.states import LIVE_DAG
from outputs_app.models import OutputBlock
from outputs_app.pipeline import MOVING
from requests_app.api.admission import QueueBody
from requests_app.selectors.requests import admission_queue, by_status, lifecycle_status, open_requests
from requests_app.services.alerts import open_alerts
from sites_app.selectors import count_sites
from wms2_project.access.roles import Role
from wms2_project.api.views import ApiView
from wms2_project.observation.health import health


def _counts() -> Any:
    return serializers.DictField(child=serializers.IntegerField())


class PartBody(serializers.Serializer[Any]):
    """Health of one component."""

    name = serializers.CharField()
    works = serializers.BooleanField()
    detail = serializers.CharField(allow_blank=True)


class StatusBody(serializers.Serializer[Any]):
    """Counts of open objects by status."""

    requests = _counts()
    dags = _counts()
    blocks = _counts()
    sites = _counts()
    alerts = _counts()
    admission = QueueBody()
    parts = PartBody(many=True)


class LifecycleBody(serializers.Serializer[Any]):
    """State of the lifecycle."""

    due = serializers.IntegerField(help_text="Due requests that wait for a worker.")
    sweep_lag_sec = serializers.FloatField(help_text="Waiting time of the oldest due request (s).")
    in_work = serializers.IntegerField()
    failing = serializers.IntegerField(help_text="Requests whose last step failed.")
    by_status = serializers.DictField(
        child=serializers.IntegerField(), help_text="Requests that have not ended, by status."
    )


class StatusView(ApiView):
    """Counts of open objects by status. Finished ones are not counted."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="status", responses=StatusBody)
    def get(self, request: HttpRequest) -> Response:
        """Return open requests, live DAGs, moving blocks, sites, the queue, and component health."""
        body = {
            "requests": by_status(open_requests()),
            "dags": by_status(DAG.objects.filter(status__in=sorted(LIVE_DAG))),
            "blocks": by_status(OutputBlock.objects.filter(status__in=sorted(MOVING))),
            "sites": count_sites(now=timezone.now()),
            "alerts": open_alerts(),
            "admission": admission_queue(),
            "parts": health(),
        }
        return Response(StatusBody(body).data)


class LifecycleView(ApiView):
    """State of the lifecycle."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="lifecycle_status", responses=LifecycleBody)
    def get(self, request: HttpRequest) -> Response:
        """Return due, overdue and running requests."""
        return Response(LifecycleBody(lifecycle_status()).data)
