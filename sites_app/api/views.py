"""Sites: where work may go, and the switches an operator has."""

from __future__ import annotations

from typing import Any, ClassVar

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from sites_app.api.serializers import DrainInput, SiteDetail, SiteRow
from sites_app.models import Site
from sites_app.services import drain_site, enable_site
from sites_app.states import SiteStatus
from wms2_project.api.pagination import ByName
from wms2_project.api.roles import Role, actor_of
from wms2_project.api.views import ApiView, ListView, ReasonInput, parsed, versioned
from wms2_project.errors import NotFound
from wms2_project.fields import choices

STATUSES = choices(SiteStatus)


class SiteFilter(filters.FilterSet):  # type: ignore[misc]
    """Which sites."""

    status = filters.MultipleChoiceFilter(choices=STATUSES)


class SiteListView(ListView):
    """All sites, by name."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = Site.objects.all()
    serializer_class = SiteRow
    filterset_class = SiteFilter
    pagination_class = ByName

    @extend_schema(operation_id="sites_list")
    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        """Sites, by name."""
        return super().get(request, *args, **kwargs)


class SiteView(ApiView):
    """One site."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="sites_get", responses=SiteDetail)
    def get(self, request: HttpRequest, name: str) -> Response:
        """One site with the bans in force."""
        return _told(site_by_name(name))


class DrainView(ApiView):
    """No new work lands at a draining site; running jobs go on."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (409,)}

    @extend_schema(operation_id="sites_drain", request=DrainInput, responses={200: SiteDetail})
    def post(self, request: HttpRequest, name: str) -> Response:
        """Start draining."""
        body = parsed(DrainInput, request.data)
        return _told(drain_site(site=site_by_name(name), actor=actor_of(request), **body))


class EnableView(ApiView):
    """Work may land at the site again."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (409,)}

    @extend_schema(operation_id="sites_enable", request=ReasonInput, responses={200: SiteDetail})
    def post(self, request: HttpRequest, name: str) -> Response:
        """Enable the site."""
        body = parsed(ReasonInput, request.data)
        return _told(enable_site(site=site_by_name(name), actor=actor_of(request), **body))


def site_by_name(name: str) -> Site:
    """The site, or a 404 that says which one is missing."""
    site = Site.objects.filter(pk=name).first()
    if site is None:
        raise NotFound(f"There is no site {name}", cure="GET /api/v1/sites lists the sites WMS2 knows")
    return site


def _told(site: Site) -> Response:
    return versioned(SiteDetail(site).data, version=site.version)
