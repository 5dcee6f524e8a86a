"""URLs of requests, workflows, admission and the lifecycle."""

from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from requests_app.api import admission, jobs, public, request_details, statistics, system, workflows
from requests_app.api.alerts import AlertListView
from requests_app.api.imports import BatchView, PlanView
from requests_app.api.prometheus import MetricsView
from requests_app.api.requests import RequestListView, RequestView
from requests_app.api.runners import RunnerEventListView, RunnerListView
from requests_app.operations import ALERT_OPERATIONS, REQUEST_OPERATIONS, RESCUE_DAG
from requests_app.states import QuotaScope
from wms2_project.api.reads import read_paths
from wms2_project.operations.rest import operation_paths


class RequestNameConverter(StringConverter):
    """Path converter of request names."""

    regex = "[A-Za-z0-9][A-Za-z0-9_.-]{0,199}"


class QuotaScopeConverter(StringConverter):
    """Path converter of quota scopes."""

    regex = "|".join(QuotaScope)


class QuotaNameConverter(StringConverter):
    """Path converter of quota names: a requestor, a group, or `*`."""

    regex = r"[*]|[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"


register_converter(RequestNameConverter, "request_name")
register_converter(QuotaScopeConverter, "quota_scope")
register_converter(QuotaNameConverter, "quota_name")

urlpatterns = [
    # First, because they are called most
    path("workflows/<uuid:workflow_id>/heartbeat", jobs.HeartbeatView.as_view(), name="job-heartbeat"),
    path("workflows/<uuid:workflow_id>/allocate", jobs.AllocateView.as_view(), name="job-allocate"),
    path("workflows/<uuid:workflow_id>/record", jobs.RecordView.as_view(), name="job-record"),
    path("workflows/<uuid:workflow_id>/confirm", jobs.ConfirmView.as_view(), name="job-confirm"),
    path("workflows/<uuid:workflow_id>/abort", jobs.AbortView.as_view(), name="job-abort"),
    path("requests", RequestListView.as_view(), name="request-list"),
    path("requests/batch", BatchView.as_view(), name="request-batch"),
    path("requests/plan", PlanView.as_view(), name="request-plan"),
    path("requests/<request_name:name>", RequestView.as_view(), name="request-detail"),
    path(
        "requests/<request_name:name>/timeline",
        request_details.TimelineView.as_view(),
        name="request-timeline",
    ),
    path("alerts", AlertListView.as_view(), name="alert-list"),
    path("workflows", workflows.WorkflowListView.as_view(), name="workflow-list"),
    path("workflows/<uuid:workflow_id>/runners", RunnerListView.as_view(), name="runner-list"),
    path("workflows/<uuid:workflow_id>/runners/events", RunnerEventListView.as_view(), name="runner-events"),
    path("admission/queue", admission.QueueView.as_view(), name="admission-queue"),
    path("admission/config", admission.LimitsView.as_view(), name="admission-config"),
    path("quotas/<quota_scope:scope>/<quota_name:name>", admission.QuotaView.as_view(), name="quota-detail"),
    path("metrics", MetricsView.as_view(), name="metrics"),
    *read_paths(admission, public, request_details, statistics, system, workflows),
    *operation_paths(REQUEST_OPERATIONS),
    *operation_paths((RESCUE_DAG, *ALERT_OPERATIONS)),
]
