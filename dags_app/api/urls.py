"""Paths of the DAGs, of the schedds that run them and of quarantined copies of files."""

from __future__ import annotations

from django.urls import path, register_converter

from dags_app.api.live import DAGLogsView, DAGNodesView
from dags_app.api.quarantine import QuarantineListView
from dags_app.api.schedds import ScheddListView
from dags_app.api.views import DAGListView, DAGView
from dags_app.operations import DAG_OPERATIONS, QUARANTINE_OPERATIONS, SCHEDD_OPERATIONS
from wms2_project.operations.rest import operation_paths


class ScheddNameConverter:
    """A schedd's name in a path."""

    regex = "[A-Za-z0-9][A-Za-z0-9_.@-]{0,199}"

    def to_python(self, value: str) -> str:
        """The name itself."""
        return value

    def to_url(self, value: str) -> str:
        """The name itself; its grammar needs no quoting."""
        return value


register_converter(ScheddNameConverter, "schedd_name")

urlpatterns = [
    path("dags", DAGListView.as_view(), name="dag-list"),
    path("dags/<uuid:dag_id>", DAGView.as_view(), name="dag-detail"),
    path("dags/<uuid:dag_id>/logs", DAGLogsView.as_view(), name="dag-logs"),
    path("dags/<uuid:dag_id>/nodes", DAGNodesView.as_view(), name="dag-nodes"),
    path("quarantine", QuarantineListView.as_view(), name="quarantine-list"),
    path("schedds", ScheddListView.as_view(), name="schedd-list"),
    *operation_paths(DAG_OPERATIONS),
    *operation_paths(SCHEDD_OPERATIONS),
    *operation_paths(QUARANTINE_OPERATIONS),
]
