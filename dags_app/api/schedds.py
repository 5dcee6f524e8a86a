"""List of schedds. Operations on them are in `dags_app.operations`."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from dags_app.api.serializers import ScheddList
from dags_app.services.schedds import known_schedds
from wms2_project.access.roles import Role
from wms2_project.api.views import ApiView


class ScheddListView(ApiView):
    """All schedds, without pages: they are few."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"GET": (503,)}

    @extend_schema(operation_id="schedds_list", responses=ScheddList)
    def get(self, request: HttpRequest) -> Response:
        """Schedds, by name."""
        return Response(ScheddList({"results": known_schedds()}).data)
