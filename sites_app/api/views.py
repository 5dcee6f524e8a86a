"""Sites. Their operations are in `sites_app.operations`."""

from __future__ import annotations

from typing import ClassVar

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from sites_app.api.serializers import SiteDetail, SiteRow
from sites_app.models import Site
from sites_app.operations import BY_NAME
from sites_app.selectors import site_by_name
from sites_app.states import SiteStatus
from wms2_project.access.roles import Role
from wms2_project.api.views import AnyOfFilter, ListView, versioned
from wms2_project.fields import choices
from wms2_project.operations import Operation
from wms2_project.operations.rest import OperationView

STATUSES = choices(SiteStatus)


class SiteFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of sites."""

    status = AnyOfFilter(choices=STATUSES)
    name = filters.CharFilter(lookup_expr="startswith", label="Prefix of the name.")


class SiteListView(ListView):
    """Sites, by name."""

    operation_id = "sites_list"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = Site.objects.all()
    serializer_class = SiteRow
    filterset_class = SiteFilter
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"name": ("name",)}
    order: ClassVar[str] = "name"


class SiteView(OperationView):
    """One site."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    operations: ClassVar[dict[str, Operation]] = {"PATCH": BY_NAME["edit"]}

    @extend_schema(operation_id="sites_get", responses=SiteDetail)
    def get(self, request: HttpRequest, name: str) -> Response:
        """Return one site with its bans in force."""
        site = site_by_name(name)
        return versioned(SiteDetail(site).data, version=site.version)
