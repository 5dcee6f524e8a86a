"""Sites: where work may go, and the switches an operator has."""

from __future__ import annotations

from typing import ClassVar

from django.utils import timezone
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from dags_app.models import Workflow
from sites_app.api.serializers import BanInput, DrainInput, LiftInput, SiteDetail, SiteInput, SiteRow
from sites_app.bans import ban_site, lift_bans
from sites_app.configuring import change_site
from sites_app.models import Site
from sites_app.services import drain_site, enable_site
from sites_app.states import SiteStatus
from wms2_project.api.docs import IF_MATCH
from wms2_project.api.filters import AnyOfFilter
from wms2_project.api.roles import Role, actor_of, check_site, operates
from wms2_project.api.views import ApiView, ListView, ReasonInput, expected_version, parsed, versioned
from wms2_project.errors import InvalidInput, NotFound
from wms2_project.fields import choices

STATUSES = choices(SiteStatus)


class SiteFilter(filters.FilterSet):  # type: ignore[misc]
    """Which sites."""

    status = AnyOfFilter(choices=STATUSES)
    name = filters.CharFilter(lookup_expr="startswith", label="How the name begins.")


@extend_schema_view(get=extend_schema(operation_id="sites_list", description="Sites, by name."))
class SiteListView(ListView):
    """All sites, by name."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = Site.objects.all()
    serializer_class = SiteRow
    filterset_class = SiteFilter
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"name": ("name",)}
    order: ClassVar[str] = "name"


class SiteView(ApiView):
    """One site."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER, "PATCH": Role.SITE_ADMIN}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"PATCH": (409, 412)}

    @extend_schema(operation_id="sites_get", responses=SiteDetail)
    def get(self, request: HttpRequest, name: str) -> Response:
        """One site with the bans in force."""
        return _told(site_by_name(name))

    @extend_schema(
        operation_id="sites_change",
        request=SiteInput,
        responses={200: SiteDetail},
        parameters=[IF_MATCH],
    )
    def patch(self, request: HttpRequest, name: str) -> Response:
        """Set slots, memory per core, storages, their use and notes of a site, or close it."""
        check_site(request, name)
        changes = parsed(SiteInput, request.data)
        site = site_by_name(name)
        changed = change_site(
            site=site,
            reason=changes.pop("reason"),
            changes=changes,
            actor=actor_of(request),
            expected_version=expected_version(request, current=site.version),
            by_operator=operates(request.user),
        )
        return _told(changed)


class DrainView(ApiView):
    """No new work lands at a draining site; running jobs go on."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.SITE_ADMIN}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (409,)}

    @extend_schema(operation_id="sites_drain", request=DrainInput, responses={200: SiteDetail})
    def post(self, request: HttpRequest, name: str) -> Response:
        """Start draining."""
        check_site(request, name)
        body = parsed(DrainInput, request.data)
        site, by_operator = site_by_name(name), operates(request.user)
        return _told(drain_site(site=site, actor=actor_of(request), by_operator=by_operator, **body))


class EnableView(ApiView):
    """Work may land at the site again."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.SITE_ADMIN}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (409,)}

    @extend_schema(operation_id="sites_enable", request=ReasonInput, responses={200: SiteDetail})
    def post(self, request: HttpRequest, name: str) -> Response:
        """Enable the site."""
        check_site(request, name)
        body = parsed(ReasonInput, request.data)
        site, by_operator = site_by_name(name), operates(request.user)
        return _told(enable_site(site=site, actor=actor_of(request), by_operator=by_operator, **body))


class BanView(ApiView):
    """Keep work away from a site for a time, for one request or for all; what runs goes on."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.SITE_ADMIN, "DELETE": Role.SITE_ADMIN}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (409,), "DELETE": (409,)}

    @extend_schema(operation_id="sites_ban", request=BanInput, responses={200: SiteDetail})
    def post(self, request: HttpRequest, name: str) -> Response:
        """Ban the site."""
        check_site(request, name)
        body = parsed(BanInput, request.data)
        site, workflow = site_by_name(name), _workflow(body["request_name"])
        ban_site(
            site=site,
            workflow=workflow,
            reason=body["reason"],
            actor=actor_of(request),
            now=timezone.now(),
            until=body["until"],
            by_operator=operates(request.user),
        )
        return _told(site)

    @extend_schema(operation_id="sites_unban", request=LiftInput, responses={200: SiteDetail})
    def delete(self, request: HttpRequest, name: str) -> Response:
        """Lift the request's ban, or all bans of the site."""
        check_site(request, name)
        body = parsed(LiftInput, request.data)
        site, workflow = site_by_name(name), _workflow(body["request_name"])
        lift_bans(
            site=site,
            workflow=workflow,
            reason=body["reason"],
            actor=actor_of(request),
            now=timezone.now(),
            by_operator=operates(request.user),
        )
        return _told(site)


def _workflow(request_name: str | None) -> Workflow | None:
    if request_name is None:
        return None
    found = Workflow.objects.filter(request_name=request_name).first()
    if found is None:
        told = f"there is no request {request_name}"
        raise InvalidInput(f"request_name: {told}", fields={"request_name": told})
    return found


def site_by_name(name: str) -> Site:
    """The site, or a 404 that says which one is missing."""
    site = Site.objects.filter(pk=name).first()
    if site is None:
        raise NotFound(f"There is no site {name}", cure="GET /api/v1/sites lists the sites WMS2 knows")
    return site


def _told(site: Site) -> Response:
    return versioned(SiteDetail(site).data, version=site.version)
