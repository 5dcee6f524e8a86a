"""URLs of requests, workflows, admission and the lifecycle."""

from __future__ import annotations

from django.urls import path, register_converter

from requests_app.api.admission import LimitsView, QueueView, QuotaListView, QuotaView
from requests_app.api.alerts import AlertListView
from requests_app.api.imports import BatchView, PlanView
from requests_app.api.prometheus import MetricsView
from requests_app.api.public import PublicRequestView
from requests_app.api.request_details import (
    ErrorsView,
    LedgerView,
    ProgressView,
    TimelineView,
    VersionsView,
    WhyView,
)
from requests_app.api.requests import RequestListView, RequestView
from requests_app.api.statistics import (
    AllErrorsView,
    FailureMetricsView,
    ThroughputView,
    WorkflowMetricsView,
)
from requests_app.api.system import LifecycleView, StatusView
from requests_app.api.workflows import WorkflowListView, WorkflowStatusView, WorkflowView
from requests_app.operations import ALERT_OPERATIONS, REQUEST_OPERATIONS, RESCUE_DAG
from requests_app.states import QuotaScope
from wms2_project.operations.rest import operation_paths


class RequestNameConverter:
    """Path converter of request names."""

    regex = "[A-Za-z0-9][A-Za-z0-9_.-]{0,199}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class QuotaScopeConverter(RequestNameConverter):
    """Path converter of quota scopes."""

    regex = "|".join(QuotaScope)


class QuotaNameConverter(RequestNameConverter):
    """Path converter of quota names: a requestor, a group, or `*`."""

    regex = r"[*]|[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"


register_converter(RequestNameConverter, "request_name")
register_converter(QuotaScopeConverter, "quota_scope")
register_converter(QuotaNameConverter, "quota_name")

urlpatterns = [
    path("requests", RequestListView.as_view(), name="request-list"),
    path("requests/batch", BatchView.as_view(), name="request-batch"),
    path("requests/plan", PlanView.as_view(), name="request-plan"),
    path("requests/<request_name:name>", RequestView.as_view(), name="request-detail"),
    path("requests/<request_name:name>/errors", ErrorsView.as_view(), name="request-errors"),
    path("requests/<request_name:name>/timeline", TimelineView.as_view(), name="request-timeline"),
    path("requests/<request_name:name>/progress", ProgressView.as_view(), name="request-progress"),
    path("requests/<request_name:name>/why", WhyView.as_view(), name="request-why"),
    path("requests/<request_name:name>/ledger", LedgerView.as_view(), name="request-ledger"),
    path("requests/<request_name:name>/versions", VersionsView.as_view(), name="request-versions"),
    path("alerts", AlertListView.as_view(), name="alert-list"),
    path("errors", AllErrorsView.as_view(), name="errors"),
    path("public/requests/<uuid:request_id>", PublicRequestView.as_view(), name="public-request"),
    path("workflows", WorkflowListView.as_view(), name="workflow-list"),
    path("workflows/<uuid:workflow_id>", WorkflowView.as_view(), name="workflow-detail"),
    path("workflows/<uuid:workflow_id>/status", WorkflowStatusView.as_view(), name="workflow-status"),
    path("admission/queue", QueueView.as_view(), name="admission-queue"),
    path("admission/config", LimitsView.as_view(), name="admission-config"),
    path("quotas", QuotaListView.as_view(), name="quota-list"),
    path("quotas/<quota_scope:scope>/<quota_name:name>", QuotaView.as_view(), name="quota-detail"),
    path("lifecycle/status", LifecycleView.as_view(), name="lifecycle-status"),
    path("metrics", MetricsView.as_view(), name="metrics"),
    path("metrics/workflows", WorkflowMetricsView.as_view(), name="metrics-workflows"),
    path("metrics/failures", FailureMetricsView.as_view(), name="metrics-failures"),
    path("metrics/throughput", ThroughputView.as_view(), name="metrics-throughput"),
    path("status", StatusView.as_view(), name="status"),
    *operation_paths(REQUEST_OPERATIONS),
    *operation_paths((RESCUE_DAG, *ALERT_OPERATIONS)),
]
