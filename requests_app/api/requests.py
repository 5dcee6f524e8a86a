"""Requests: import, list, read, change. Each method parses, calls one service, renders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.conf import settings
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer, extend_schema
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.api.filters import RequestFilter
from requests_app.api.imports import IDEMPOTENCY_KEY, idempotency_key, imported, take_in
from requests_app.api.inputs import IMPORT_SCHEMA, ChangeInput, OptionalReason
from requests_app.api.rows import MEMBERS, columns_of, render_detail, render_rows
from requests_app.api.serializers import ActionBody, EffectsBody, ImportBody, RequestDetail, RequestRow
from requests_app.models import Request
from requests_app.selectors import owners_of
from requests_app.services import editing, steering
from requests_app.states import RequestStatus
from wms2_project.api.docs import IF_MATCH
from wms2_project.api.roles import Role, actor_of, groups_of, operates
from wms2_project.api.views import (
    ApiView,
    ListView,
    ReasonInput,
    check_fields,
    expected_version,
    parsed,
    versioned,
)
from wms2_project.errors import NotFound


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
        """Requests, newest first. `request_data`, the original document, comes only if `fields` names it."""
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
        """The rows were made of the wanted members only."""
        return body

    @extend_schema(
        operation_id="requests_import",
        request={"application/json": IMPORT_SCHEMA},
        responses={201: ImportBody},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: HttpRequest) -> Response:
        """Import a request: by its name from ReqMgr2, or as a whole document."""
        made, created = take_in(request.data, request, key=idempotency_key(request))
        return imported(made, created=created)


class RequestView(ApiView):
    """One request."""

    roles: ClassVar[dict[str, Role]] = {
        "GET": Role.VIEWER,
        "PATCH": Role.REQUESTOR,
        "DELETE": Role.REQUESTOR,
    }
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"PATCH": (409, 412), "DELETE": (409, 412, 503)}

    @extend_schema(operation_id="requests_get", responses=RequestDetail)
    def get(self, request: HttpRequest, name: str) -> Response:
        """Everything about one request. The ETag is its version."""
        return _told(request_by_name(name, bare=True))

    @extend_schema(
        operation_id="requests_change",
        request=ChangeInput,
        responses={200: PolymorphicProxySerializer("ChangeBody", [RequestDetail, EffectsBody], None)},
        parameters=[IF_MATCH],
    )
    def patch(self, request: HttpRequest, name: str) -> Response:
        """Change priority, sites, memory or throttles; of a draft, anything.

        Requestors change the priority of their own requests, and all of their own drafts.
        """
        changes = parsed(ChangeInput, request.data)
        reason, dry_run = changes.pop("reason"), changes.pop("dry_run")
        row = request_by_name(name)
        check_owner(request, row)
        if row.status != RequestStatus.NEW:
            _check_requestor(request, changes)
        expected = expected_version(request, current=row.version)
        rights: dict[str, Any] = {"on_behalf": operates(request.user), "groups": groups_of(request.user)}
        actor = actor_of(request)
        if dry_run:
            seen = editing.preview_change(request=row, changes=changes, actor=actor, **rights)
            return versioned(EffectsBody(seen).data, version=row.version)
        row = editing.change_request(
            request=row, actor=actor, reason=reason, changes=changes, expected_version=expected, **rights
        )
        return _told(row)

    @extend_schema(
        operation_id="requests_delete",
        request=OptionalReason,
        responses={200: ActionBody},
        parameters=[IF_MATCH, OpenApiParameter("reason", str, description="Why; or in the body.")],
    )
    def delete(self, request: HttpRequest, name: str) -> Response:
        """Abort the request. Nothing is forgotten: the request stays readable."""
        given = request.query_params.get("reason") or parsed(OptionalReason, request.data).get("reason", "")
        return abort(request, name, reason=parsed(ReasonInput, {"reason": given})["reason"])


def abort(http: HttpRequest, name: str, *, reason: str) -> Response:
    """Abort for DELETE and for /abort alike."""
    row = request_by_name(name)
    check_owner(http, row)
    before = row.status
    row = steering.abort_request(
        request=row,
        actor=actor_of(http),
        reason=reason,
        expected_version=expected_version(http, current=row.version),
    )
    return acted(row, before=before, reason=reason, message="Aborted: what runs is being removed.")


def acted(row: Request, *, before: str, reason: str, message: str, **more: Any) -> Response:
    """What an action answers."""
    body = {
        "request_name": row.request_name,
        "status": row.status,
        "previous_status": before,
        "reason": reason,
        "message": message,
        "version": row.version,
    }
    return versioned(ActionBody(body | more).data, version=row.version)


def request_by_name(name: str, *, bare: bool = False) -> Request:
    """The request, with its workflow unless `bare`; or a 404 that says which one is missing."""
    rows = Request.objects.all() if bare else Request.objects.select_related("workflow")
    try:
        return rows.get(request_name=name)
    except Request.DoesNotExist as error:
        raise NotFound(f"There is no request named {name}") from error


def _check_requestor(http: HttpRequest, changes: Mapping[str, Any]) -> None:
    """Below operators only the priority may be changed, and not to just anything."""
    if operates(http.user):
        return
    if set(changes) != {"priority"}:
        raise PermissionDenied("Requestors change the priority only; ask an operator for the rest.")
    if changes["priority"] > settings.REQUESTOR_MAX_PRIORITY:
        raise PermissionDenied(f"Requestors go up to {settings.REQUESTOR_MAX_PRIORITY}; ask an operator.")


def check_owner(http: HttpRequest, row: Request) -> None:
    """Operators may touch every request, requestors their own."""
    if not operates(http.user) and http.user.get_username() not in owners_of(row):
        raise PermissionDenied(
            f"{row.request_name} is {row.requestor}'s; you may change only your own requests."
        )


def _told(row: Request) -> Response:
    return versioned(render_detail(row), version=row.version)
