"""Paths of the DAGs."""

from __future__ import annotations

from django.urls import path

from dags_app.api.views import DAGListView, DAGLogsView, DAGView

urlpatterns = [
    path("dags", DAGListView.as_view(), name="dag-list"),
    path("dags/<uuid:dag_id>", DAGView.as_view(), name="dag-detail"),
    path("dags/<uuid:dag_id>/logs", DAGLogsView.as_view(), name="dag-logs"),
]
