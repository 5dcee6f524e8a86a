"""Requests: import, list, read, change. Each method parses, calls one service, renders."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils import timezone
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.api.imports import IDEMPOTENCY_KEY, idempotency_key, imported, take_in
from requests_app.api.inputs import IMPORT_SCHEMA
from requests_app.api.request_table import MEMBERS, columns_of, render_detail, render_rows
from requests_app.api.serializers import ImportBody, RequestDetail, RequestRow
from requests_app.models import Request
from requests_app.operations import BY_NAME
from requests_app.selectors.history import EarlierState, state_at
from requests_app.selectors.requests import reads_dataset, request_by_name
from requests_app.states import RequestStatus
from wms2_project.access.roles import Role
from wms2_project.api.bodies import body_of, render
from wms2_project.api.views import (
    AnyOfFilter,
    Input,
    ListView,
    WholeFilter,
    asked,
    check_fields,
    versioned,
)
from wms2_project.fields import choices
from wms2_project.operations import Operation
from wms2_project.operations.rest import OperationView

STATUSES = choices(RequestStatus)
_BOOLEAN = [("true", "true"), ("false", "false")]


@extend_schema_field(OpenApiTypes.BOOL)
class FlagFilter(filters.TypedChoiceFilter):  # type: ignore[misc]
    """Filter by true or false. The standard filter ignores other values."""


class InputFilter(filters.CharFilter):  # type: ignore[misc]
    """Filter by a dataset that is one of the inputs."""

    def filter(self, rows: QuerySet[Request], value: str) -> QuerySet[Request]:
        return rows.filter(reads_dataset(value)) if value else rows


class RequestFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of requests, combined by AND. `status` may be repeated."""

    status = AnyOfFilter(choices=STATUSES)
    name = filters.CharFilter(
        field_name="request_name", lookup_expr="startswith", label="Prefix of the name."
    )
    campaign = filters.CharFilter()
    requestor = filters.CharFilter()
    submitted_by = filters.CharFilter()
    correlation_id = filters.CharFilter()
    input_dataset = InputFilter()
    priority_min = WholeFilter(field_name="priority", lookup_expr="gte", most=1_000_000)
    priority_max = WholeFilter(field_name="priority", lookup_expr="lte", most=1_000_000)
    urgent = FlagFilter(choices=_BOOLEAN, coerce=lambda given: given == "true")
    created_after = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="gte")
    created_before = filters.IsoDateTimeFilter(field_name="created_at", lookup_expr="lt")


class RequestListView(ListView):
    """The requests."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER, "POST": Role.REQUESTOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (404, 409, 502, 503)}
    queryset = Request.objects.all()
    serializer_class = RequestRow
    filterset_class = RequestFilter
    orders: ClassVar[dict[str, tuple[str, ...]]] = ListView.orders | {
        "request_name": ("request_name",),
        "priority": ("priority", "created_at", "id"),
    }

    @extend_schema(operation_id="requests_list")
    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        """List requests, newest first. `request_data` is included only if named in `fields`."""
        given = request.query_params.get("fields")
        members: tuple[str, ...] = RequestRow.Meta.fields
        if given is not None:
            wanted = frozenset(given.split(","))
            check_fields(wanted, known=set(MEMBERS))
            members = tuple(one for one in MEMBERS if one in wanted)
        rows = columns_of(self.filter_queryset(self.get_queryset()), members)
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(render_rows(page or [], members))

    def select(self, body: dict[str, Any], wanted: frozenset[str]) -> dict[str, Any]:
        """Return the body unchanged: the rows contain only the wanted members."""
        return body

    @extend_schema(
        operation_id="requests_import",
        request={"application/json": IMPORT_SCHEMA},
        responses={201: ImportBody},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: HttpRequest) -> Response:
        """Import a request: by name from ReqMgr2, or as a document."""
        made, created = take_in(request.data, request, key=idempotency_key(request))
        return imported(made, created=created)


class AtQuery(Input):
    """The time of which the state is wanted."""

    from_json = False
    at = serializers.DateTimeField(
        required=False,
        error_messages={"invalid": "Give an ISO time, such as 2031-05-17T08:30:00Z."},
        help_text="Return the state at this time, such as 2031-05-17T08:30:00Z, instead of the present one."
        " It must lie between the creation of the request and now.",
    )


REQUEST_BODIES = PolymorphicProxySerializer(
    component_name="RequestNowOrThen",
    serializers=[RequestDetail, body_of(EarlierState)],
    resource_type_field_name=None,
)


class RequestView(OperationView):
    """One request."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    operations: ClassVar[dict[str, Operation]] = {"PATCH": BY_NAME["edit"], "DELETE": BY_NAME["abort"]}

    @extend_schema(operation_id="requests_get", responses=REQUEST_BODIES, parameters=[AtQuery])
    def get(self, request: HttpRequest, name: str) -> Response:
        """Return all details of one request; with `at`, its state at that time. The ETag is its version."""
        row = request_by_name(name, bare=True)
        if "at" in request.query_params:
            at = asked(AtQuery, request)["at"]
            return Response(render(state_at(row, at, now=timezone.now())))
        return versioned(render_detail(row), version=row.version)
