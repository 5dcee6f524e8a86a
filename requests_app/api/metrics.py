"""Statistics for people: success, durations, common failures, throughput. Windows are bounded."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.metrics import ROWS, failure_metrics, throughput_metrics, workflow_metrics
from wms2_project.api.roles import Role
from wms2_project.api.views import ApiView, Input, asked

MAX_BUCKETS = 1000


class WindowInput(Input):
    """Which days, and whose."""

    from_json = False
    days = serializers.IntegerField(min_value=1, max_value=90, default=7)
    campaign = serializers.CharField(max_length=200, default="")


class FailuresInput(WindowInput):
    """Which days, whose, and how many kinds."""

    limit = serializers.IntegerField(min_value=1, max_value=ROWS, default=20)


class ThroughputInput(Input):
    """Which hours, in steps of how many minutes."""

    from_json = False
    hours = serializers.IntegerField(min_value=1, max_value=24 * 90, default=24)
    bucket_minutes = serializers.IntegerField(min_value=5, max_value=1440, default=60)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """So many steps would be no picture any more."""
        if attrs["hours"] * 60 > attrs["bucket_minutes"] * MAX_BUCKETS:
            raise serializers.ValidationError({"bucket_minutes": f"At most {MAX_BUCKETS} steps."})
        return attrs


class FailureKind(serializers.Serializer[Any]):
    """One kind of failure; numbers and names in its words are left out."""

    pattern = serializers.CharField()
    status = serializers.CharField()
    campaign = serializers.CharField(allow_blank=True)
    occurrences = serializers.IntegerField()
    requests = serializers.IntegerField()
    last_seen = serializers.DateTimeField()
    example = serializers.CharField(help_text="The request that met it last.")


class CampaignMetrics(serializers.Serializer[Any]):
    """How the requests of a campaign ended."""

    campaign = serializers.CharField(allow_blank=True)
    total = serializers.IntegerField()
    completed = serializers.IntegerField()
    failed = serializers.IntegerField()
    aborted = serializers.IntegerField()
    success_rate = serializers.FloatField()
    avg_duration_sec = serializers.FloatField(allow_null=True)
    p50_duration_sec = serializers.FloatField(allow_null=True)
    p95_duration_sec = serializers.FloatField(allow_null=True)
    common_failures = FailureKind(many=True)


class Bucket(serializers.Serializer[Any]):
    """What happened from `bucket` on, for one step."""

    bucket = serializers.DateTimeField()
    submitted = serializers.IntegerField()
    completed = serializers.IntegerField()
    failed = serializers.IntegerField()
    aborted = serializers.IntegerField()
    held = serializers.IntegerField()
    avg_duration_sec = serializers.FloatField(allow_null=True)


class WorkflowMetricsBody(serializers.Serializer[Any]):
    """Campaigns, the busiest first."""

    days = serializers.IntegerField()
    workflows = CampaignMetrics(many=True)


class FailureMetricsBody(serializers.Serializer[Any]):
    """Kinds of failures, the commonest first."""

    days = serializers.IntegerField()
    failures = FailureKind(many=True)


class ThroughputBody(serializers.Serializer[Any]):
    """Steps, the oldest first."""

    hours = serializers.IntegerField()
    bucket_minutes = serializers.IntegerField()
    buckets = Bucket(many=True)


class WorkflowMetricsView(ApiView):
    """How requests end."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="metrics_workflows", parameters=[WindowInput], responses=WorkflowMetricsBody)
    def get(self, request: HttpRequest) -> Response:
        """Success rate, durations and common failures per campaign."""
        window = asked(WindowInput, request)
        rows = workflow_metrics(now=timezone.now(), **window)
        return Response(WorkflowMetricsBody({"days": window["days"], "workflows": rows}).data)


class FailureMetricsView(ApiView):
    """What stops requests."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="metrics_failures", parameters=[FailuresInput], responses=FailureMetricsBody)
    def get(self, request: HttpRequest) -> Response:
        """Kinds of failures, the commonest first."""
        window = asked(FailuresInput, request)
        rows = failure_metrics(now=timezone.now(), **window)
        return Response(FailureMetricsBody({"days": window["days"], "failures": rows}).data)


class ThroughputView(ApiView):
    """How many requests go through."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="metrics_throughput", parameters=[ThroughputInput], responses=ThroughputBody)
    def get(self, request: HttpRequest) -> Response:
        """Requests that came, ended and stopped, in time."""
        window = asked(ThroughputInput, request)
        rows = throughput_metrics(now=timezone.now(), **window)
        return Response(ThroughputBody(window | {"buckets": rows}).data)
