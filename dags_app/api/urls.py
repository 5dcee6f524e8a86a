"""Paths of the DAGs and of the schedds that run them."""

from __future__ import annotations

from django.urls import path, register_converter

from dags_app.api.actions import DAGHoldView, DAGReleaseView, DAGRemoveView
from dags_app.api.live import DAGLogsView, DAGNodesView
from dags_app.api.schedds import ScheddDrainView, ScheddEnableView, ScheddFenceView, ScheddListView
from dags_app.api.views import DAGListView, DAGView


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
    path("dags/<uuid:dag_id>/hold", DAGHoldView.as_view(), name="dag-hold"),
    path("dags/<uuid:dag_id>/release", DAGReleaseView.as_view(), name="dag-release"),
    path("dags/<uuid:dag_id>/remove", DAGRemoveView.as_view(), name="dag-remove"),
    path("schedds", ScheddListView.as_view(), name="schedd-list"),
    path("schedds/<schedd_name:name>/drain", ScheddDrainView.as_view(), name="schedd-drain"),
    path("schedds/<schedd_name:name>/fence", ScheddFenceView.as_view(), name="schedd-fence"),
    path("schedds/<schedd_name:name>/enable", ScheddEnableView.as_view(), name="schedd-enable"),
]
