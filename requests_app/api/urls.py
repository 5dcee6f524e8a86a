"""Paths of requests, workflows, admission and the lifecycle."""

from __future__ import annotations

from django.urls import path, register_converter

from requests_app.api.actions import (
    AbortView,
    ProgressView,
    ReleaseView,
    StopView,
    TimelineView,
    VersionsView,
)
from requests_app.api.admission import LimitsView, QueueView
from requests_app.api.planning import LedgerView, PlanView
from requests_app.api.requests import RequestListView, RequestView
from requests_app.api.system import LifecycleView, StatusView
from requests_app.api.workflows import WorkflowListView, WorkflowStatusView, WorkflowView


class RequestNameConverter:
    """A request name in a path: anything else is no path of ours."""

    regex = "[A-Za-z0-9][A-Za-z0-9_.-]{0,199}"

    def to_python(self, value: str) -> str:
        """The name itself."""
        return value

    def to_url(self, value: str) -> str:
        """The name itself; its grammar needs no quoting."""
        return value


register_converter(RequestNameConverter, "request_name")

urlpatterns = [
    path("requests", RequestListView.as_view(), name="request-list"),
    path("requests/plan", PlanView.as_view(), name="request-plan"),
    path("requests/<request_name:name>", RequestView.as_view(), name="request-detail"),
    path("requests/<request_name:name>/release", ReleaseView.as_view(), name="request-release"),
    path("requests/<request_name:name>/stop", StopView.as_view(), name="request-stop"),
    path("requests/<request_name:name>/abort", AbortView.as_view(), name="request-abort"),
    path("requests/<request_name:name>/timeline", TimelineView.as_view(), name="request-timeline"),
    path("requests/<request_name:name>/progress", ProgressView.as_view(), name="request-progress"),
    path("requests/<request_name:name>/ledger", LedgerView.as_view(), name="request-ledger"),
    path("requests/<request_name:name>/versions", VersionsView.as_view(), name="request-versions"),
    path("workflows", WorkflowListView.as_view(), name="workflow-list"),
    path("workflows/<uuid:workflow_id>", WorkflowView.as_view(), name="workflow-detail"),
    path("workflows/<uuid:workflow_id>/status", WorkflowStatusView.as_view(), name="workflow-status"),
    path("admission/queue", QueueView.as_view(), name="admission-queue"),
    path("admission/config", LimitsView.as_view(), name="admission-config"),
    path("lifecycle/status", LifecycleView.as_view(), name="lifecycle-status"),
    path("status", StatusView.as_view(), name="status"),
]
