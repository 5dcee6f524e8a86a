"""Statistics over bounded time windows: success, durations, common failures, throughput."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.selectors.statistics import ROWS, failure_metrics, throughput_metrics, workflow_metrics
from wms2_project.access.roles import Role
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


class FailureKind(serializers.Serializer[Any]):
    """One kind of failure. Its pattern is a message without numbers and names."""

    pattern = serializers.CharField()
    status = serializers.CharField()
    campaign = serializers.CharField(allow_blank=True)
    occurrences = serializers.IntegerField()
    requests = serializers.IntegerField()
    last_seen = serializers.DateTimeField()
    example = serializers.CharField(help_text="The last affected request.")


class CampaignMetrics(serializers.Serializer[Any]):
    """Outcomes of the requests of a campaign."""

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
    """Counts of one time bucket, which starts at `bucket`."""

    bucket = serializers.DateTimeField()
    submitted = serializers.IntegerField()
    completed = serializers.IntegerField()
    failed = serializers.IntegerField()
    aborted = serializers.IntegerField()
    held = serializers.IntegerField()
    avg_duration_sec = serializers.FloatField(allow_null=True)


class WorkflowMetricsBody(serializers.Serializer[Any]):
    """Campaigns, the one with most requests first."""

    days = serializers.IntegerField()
    workflows = CampaignMetrics(many=True)


class FailureMetricsBody(serializers.Serializer[Any]):
    """Kinds of failures, the most frequent first."""

    days = serializers.IntegerField()
    failures = FailureKind(many=True)


class ThroughputBody(serializers.Serializer[Any]):
    """Time buckets, oldest first."""

    hours = serializers.IntegerField()
    bucket_minutes = serializers.IntegerField()
    buckets = Bucket(many=True)


class WorkflowMetricsView(ApiView):
    """Outcomes per campaign."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="metrics_workflows", parameters=[WindowInput], responses=WorkflowMetricsBody)
    def get(self, request: HttpRequest) -> Response:
        """Return success rate, durations and common failures per campaign."""
        window = asked(WindowInput, request)
        rows = workflow_metrics(now=timezone.now(), **window)
        return Response(WorkflowMetricsBody({"days": window["days"], "workflows": rows}).data)


class FailureMetricsView(ApiView):
    """Kinds of failures."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="metrics_failures", parameters=[FailuresInput], responses=FailureMetricsBody)
    def get(self, request: HttpRequest) -> Response:
        """Kinds of failures, the most frequent first."""
        window = asked(FailuresInput, request)
        rows = failure_metrics(now=timezone.now(), **window)
        return Response(FailureMetricsBody({"days": window["days"], "failures": rows}).data)


class ThroughputView(ApiView):
    """Throughput over time."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="metrics_throughput", parameters=[ThroughputInput], responses=ThroughputBody)
    def get(self, request: HttpRequest) -> Response:
        """Return submitted, ended and held requests over time."""
        window = asked(ThroughputInput, request)
        rows = throughput_metrics(now=timezone.now(), **window)
        return Response(ThroughputBody(window | {"buckets": rows}).data)
