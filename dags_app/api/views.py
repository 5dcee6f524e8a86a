"""DAGs and schedds. The operations on them are in `dags_app.operations`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar
from uuid import UUID

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from dags_app.api.serializers import DAGDetail, DAGRow, ScheddRow
from dags_app.models import DAG, Schedd
from dags_app.selectors import dag_by_id
from dags_app.services.schedds import known_schedds
from dags_app.states import DAGKind, DAGStatus
from wms2_project.access.roles import Role
from wms2_project.api.reads import reads
from wms2_project.api.views import AnyOfFilter, ApiView, ListView, versioned
from wms2_project.fields import choices

STATUSES = choices(DAGStatus)
KINDS = choices(DAGKind)


class DAGFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of DAGs."""

    status = AnyOfFilter(choices=STATUSES)
    kind = AnyOfFilter(choices=KINDS)
    workflow = filters.UUIDFilter(field_name="workflow_id")
    request_name = filters.CharFilter(field_name="workflow__request_name")
    schedd_name = filters.CharFilter()


class DAGListView(ListView):
    """DAGs, newest first."""

    operation_id = "dags_list"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = DAG.objects.select_related("workflow", "round")
    serializer_class = DAGRow
    filterset_class = DAGFilter


class DAGView(ApiView):
    """One DAG."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="dags_get", responses=DAGDetail)
    def get(self, request: HttpRequest, dag_id: UUID) -> Response:
        """Return one DAG with its groups and latest events."""
        dag = dag_by_id(dag_id)
        return versioned(DAGDetail(dag).data, version=dag.version)


@dataclass(frozen=True, slots=True)
class ScheddList:
    """All schedds, by name. There are no pages."""

    results: Annotated[list[Schedd], ScheddRow]


@reads("schedds", problems={"GET": (503,)})
def schedds_list(request: HttpRequest) -> ScheddList:
    """Return the schedds, by name."""
    return ScheddList(known_schedds())
