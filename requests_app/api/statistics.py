"""Statistics over bounded time windows: success, durations, failures, throughput."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.selectors.diagnosis import diagnose_all
from requests_app.selectors.statistics import (
    ROWS,
    Bucket,
    CampaignMetrics,
    FailureKind,
    failure_metrics,
    throughput_metrics,
    workflow_metrics,
)
from wms2_project.access.roles import Role
from wms2_project.api.bodies import answers
from wms2_project.api.views import ApiView, Input, asked

MAX_BUCKETS = 1000


class WindowInput(Input):
    """Time window and campaign."""

    from_json = False
    days = serializers.IntegerField(min_value=1, max_value=90, default=7)
    campaign = serializers.CharField(max_length=200, default="")


class FailuresInput(WindowInput):
    """Time window, campaign and limit."""

    limit = serializers.IntegerField(min_value=1, max_value=ROWS, default=20)


class ThroughputInput(Input):
    """Time window and bucket size."""

    from_json = False
    hours = serializers.IntegerField(min_value=1, max_value=24 * 90, default=24)
    bucket_minutes = serializers.IntegerField(min_value=5, max_value=1440, default=60)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Limit the number of buckets."""
        if attrs["hours"] * 60 > attrs["bucket_minutes"] * MAX_BUCKETS:
            raise serializers.ValidationError({"bucket_minutes": f"At most {MAX_BUCKETS} steps."})
        return attrs


class ErrorsQuery(Input):
    """Time window and limit."""

    from_json = False
    days = serializers.IntegerField(min_value=1, max_value=365, default=7)
    limit = serializers.IntegerField(min_value=1, max_value=500, default=100)


@dataclass(frozen=True, slots=True)
class WorkflowMetrics:
    """Campaigns, the one with most requests first."""

    days: int
    workflows: list[CampaignMetrics]


@dataclass(frozen=True, slots=True)
class FailureMetrics:
    """Kinds of failures, the most frequent first."""

    days: int
    failures: list[FailureKind]


@dataclass(frozen=True, slots=True)
class Throughput:
    """Time buckets, oldest first."""

    hours: int
    bucket_minutes: int
    buckets: list[Bucket]


class WorkflowMetricsView(ApiView):
    """Outcomes per campaign."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @answers("metrics_workflows", parameters=[WindowInput])
    def get(self, request: HttpRequest) -> WorkflowMetrics:
        """Return success rate, durations and common failures per campaign."""
        window = asked(WindowInput, request)
        return WorkflowMetrics(window["days"], workflow_metrics(now=timezone.now(), **window))


class FailureMetricsView(ApiView):
    """Kinds of failures."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @answers("metrics_failures", parameters=[FailuresInput])
    def get(self, request: HttpRequest) -> FailureMetrics:
        """Kinds of failures, the most frequent first."""
        window = asked(FailuresInput, request)
        return FailureMetrics(window["days"], failure_metrics(now=timezone.now(), **window))


class ThroughputView(ApiView):
    """Throughput over time."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @answers("metrics_throughput", parameters=[ThroughputInput])
    def get(self, request: HttpRequest) -> Throughput:
        """Return submitted, ended and held requests over time."""
        window = asked(ThroughputInput, request)
        return Throughput(**window, buckets=throughput_metrics(now=timezone.now(), **window))


class AllErrorsView(ApiView):
    """Failures across requests."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="errors", responses={200: OpenApiTypes.OBJECT}, parameters=[ErrorsQuery])
    def get(self, request: HttpRequest) -> Response:
        """Return clusters of similar failures of all requests, the most frequent first."""
        query = asked(ErrorsQuery, request)
        return Response({"results": diagnose_all(now=timezone.now(), **query)})
