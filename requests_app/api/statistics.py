"""Statistics over bounded time windows: success, durations, failures, throughput."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest

from requests_app.selectors.diagnosis import FailureCause, diagnose_all
from requests_app.selectors.statistics import (
    ROWS,
    Bucket,
    CampaignMetrics,
    FailureKind,
    failure_metrics,
    throughput_metrics,
    workflow_metrics,
)
from wms2_project.api.reads import reads
from wms2_project.api.views import Input

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


@dataclass(frozen=True, slots=True)
class FailureCauses:
    """Causes of failures, the most frequent first."""

    results: list[FailureCause]


@reads("metrics/workflows", query=WindowInput)
def metrics_workflows(request: HttpRequest, days: int, campaign: str) -> WorkflowMetrics:
    """Return success rate, durations and common failures per campaign."""
    return WorkflowMetrics(days, workflow_metrics(now=timezone.now(), days=days, campaign=campaign))


@reads("metrics/failures", query=FailuresInput)
def metrics_failures(request: HttpRequest, days: int, campaign: str, limit: int) -> FailureMetrics:
    """Kinds of failures, the most frequent first."""
    found = failure_metrics(now=timezone.now(), days=days, campaign=campaign, limit=limit)
    return FailureMetrics(days, found)


@reads("metrics/throughput", query=ThroughputInput)
def metrics_throughput(request: HttpRequest, hours: int, bucket_minutes: int) -> Throughput:
    """Return submitted, ended and held requests over time."""
    buckets = throughput_metrics(now=timezone.now(), hours=hours, bucket_minutes=bucket_minutes)
    return Throughput(hours, bucket_minutes, buckets)


@reads("errors", query=ErrorsQuery)
def errors(request: HttpRequest, days: int, limit: int) -> FailureCauses:
    """Return clusters of similar failures of all requests, the most frequent first."""
    return FailureCauses(diagnose_all(now=timezone.now(), days=days, limit=limit))
