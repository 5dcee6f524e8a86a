"""Paths of DAGs and schedds."""

from __future__ import annotations

from django.urls import path, register_converter

from dags_app.api.live import DAGLogsView, DAGNodesView
from dags_app.api.schedds import ScheddListView
from dags_app.api.views import DAGListView, DAGView
from dags_app.operations import DAG_OPERATIONS, SCHEDD_OPERATIONS
from wms2_project.operations.rest import operation_paths


class ScheddNameConverter:
    """Name of a schedd in a path."""

    regex = "[A-Za-z0-9][A-Za-z0-9_.@-]{0,199}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        """Return the name: its grammar needs no quoting."""
        return value


register_converter(ScheddNameConverter, "schedd_name")

urlpatterns = [
    path("dags", DAGListView.as_view(), name="dag-list"),
    path("dags/<uuid:dag_id>", DAGView.as_view(), name="dag-detail"),
    path("dags/<uuid:dag_id>/logs", DAGLogsView.as_view(), name="dag-logs"),
    path("dags/<uuid:dag_id>/nodes", DAGNodesView.as_view(), name="dag-nodes"),
    path("schedds", ScheddListView.as_view(), name="schedd-list"),
    *operation_paths(DAG_OPERATIONS),
    *operation_paths(SCHEDD_OPERATIONS),
]
