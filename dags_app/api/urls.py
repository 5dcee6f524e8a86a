"""Paths of DAGs, schedds and quarantined copies of files."""

from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from dags_app.api import live, views
from dags_app.api.quarantine import QuarantineListView
from dags_app.api.sandboxes import SandboxView
from dags_app.dag_files import GROUP_NAME, NODE_NAME
from dags_app.operations import DAG_OPERATIONS, QUARANTINE_OPERATIONS, SCHEDD_OPERATIONS
from wms2_project.api.reads import read_paths
from wms2_project.operations.rest import operation_paths


class ScheddNameConverter(StringConverter):
    """Path converter of schedd names."""

    regex = "[A-Za-z0-9][A-Za-z0-9_.@-]{0,199}"


class GroupNameConverter(StringConverter):
    """Path converter of merge groups."""

    regex = GROUP_NAME.pattern


class NodeNameConverter(StringConverter):
    """Path converter of nodes."""

    regex = NODE_NAME.pattern


register_converter(ScheddNameConverter, "schedd_name")
register_converter(GroupNameConverter, "group_name")
register_converter(NodeNameConverter, "node_name")

urlpatterns = [
    path("dags", views.DAGListView.as_view(), name="dag-list"),
    path("dags/<uuid:dag_id>", views.DAGView.as_view(), name="dag-detail"),
    path("sandboxes", SandboxView.as_view(), name="sandbox-upload"),
    path("quarantine", QuarantineListView.as_view(), name="quarantine-list"),
    *read_paths(live, views),
    *operation_paths(DAG_OPERATIONS),
    *operation_paths(SCHEDD_OPERATIONS),
    *operation_paths(QUARANTINE_OPERATIONS),
]
