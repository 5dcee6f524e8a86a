"""The whole at a glance: how the lifecycle keeps up, and what there is of everything."""

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
from requests_app.alerts import open_alerts
from requests_app.api.admission import QueueBody
from requests_app.selectors import admission_queue, by_status, lifecycle_status, open_requests
from sites_app.selectors import count_sites
from wms2_project.api.roles import Role
from wms2_project.api.views import ApiView
from wms2_project.health import health


def _counts() -> Any:
    return serializers.DictField(child=serializers.IntegerField())


class PartBody(serializers.Serializer[Any]):
    """One thing WMS2 stands on, and what is wrong with it."""

    name = serializers.CharField()
    works = serializers.BooleanField()
    detail = serializers.CharField(allow_blank=True)


class StatusBody(serializers.Serializer[Any]):
    """What is open, by status."""

    requests = _counts()
    dags = _counts()
    blocks = _counts()
    sites = _counts()
    alerts = _counts()
    admission = QueueBody()
    parts = PartBody(many=True)


class LifecycleBody(serializers.Serializer[Any]):
    """Whether the loop is alive."""

    due = serializers.IntegerField(help_text="Requests that wait for a worker now.")
    sweep_lag_sec = serializers.FloatField(help_text="For how long the oldest of them has waited.")
    in_work = serializers.IntegerField()
    failing = serializers.IntegerField(help_text="Requests whose last step ended in an error.")
    by_status = serializers.DictField(
        child=serializers.IntegerField(), help_text="Requests that have not ended, by status."
    )


class StatusView(ApiView):
    """What is open, by status. What is finished is not counted: that grows for ever."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="status", responses=StatusBody)
    def get(self, request: HttpRequest) -> Response:
        """Open requests, live DAGs, moving blocks, sites, the admission queue, and what works."""
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
    """Does the lifecycle keep up?"""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="lifecycle_status", responses=LifecycleBody)
    def get(self, request: HttpRequest) -> Response:
        """What is due, overdue and being worked on."""
        return Response(LifecycleBody(lifecycle_status()).data)
