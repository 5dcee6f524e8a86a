"""Requests: import, list, read, change. Each method parses, calls one service, renders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app import services
from requests_app.api.filters import RequestFilter
from requests_app.api.inputs import IMPORT_SCHEMA, ChangeInput, ImportByName, OptionalReason
from requests_app.api.serializers import (
    ActionBody,
    ImportBody,
    RequestDetail,
    RequestRow,
    SparseRow,
    links_of,
)
from requests_app.models import Request
from requests_app.selectors import progress_of, progress_of_many
from wms2_project.api.roles import Role, actor_of, role_of
from wms2_project.api.views import ApiView, ListView, ReasonInput, expected_version, parsed, versioned
from wms2_project.errors import InvalidInput, NotFound

IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, description="The ETag you read; refused with 412 if stale."
)
FIELDS = OpenApiParameter(
    "fields", str, description="Members wanted, by commas; `request_data` (the original) comes only so."
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key", str, OpenApiParameter.HEADER,
    description="The same key with the same body answers as the first time did.",
)  # fmt: skip
_COLUMNS = {"workflow": "workflow_id", "input_dataset": "workflow__input_dataset"}  # where names differ
_NO_COLUMNS = {"progress", "links"}


class RequestListView(ListView):
    """The requests."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER, "POST": Role.REQUESTOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (409, 502, 503)}
    queryset = Request.objects.select_related("workflow")
    serializer_class = RequestRow
    filterset_class = RequestFilter
    other_parameters: ClassVar[frozenset[str]] = frozenset({"fields"})

    @extend_schema(operation_id="requests_list", parameters=[FIELDS])
    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        """Requests, newest first."""
        wanted = self._wanted()
        page = self.paginate_queryset(self.filter_queryset(self._rows(wanted)))
        rows = page if page is not None else []
        progress = progress_of_many(rows) if wanted is None or "progress" in wanted else {}
        kind = RequestRow if wanted is None else SparseRow
        return self.get_paginated_response(
            kind(rows, many=True, context={"progress": progress, "fields": wanted}).data
        )

    def _wanted(self) -> frozenset[str] | None:
        given = self.request.query_params.get("fields")
        if given is None:
            return None
        wanted = frozenset(given.split(","))
        if unknown := wanted - set(SparseRow.Meta.fields):
            raise ValidationError({"fields": f"There is no {', '.join(sorted(unknown))}."})
        return wanted

    def _rows(self, wanted: frozenset[str] | None) -> QuerySet[Request]:
        """Only the columns shown: a page would otherwise read fifty documents it does not send."""
        shown = (wanted or frozenset(RequestRow.Meta.fields)) - _NO_COLUMNS
        needed = shown | {"request_name", "workflow", "status", "created_at"}
        return self.get_queryset().only(*(_COLUMNS.get(name, name) for name in sorted(needed)))

    @extend_schema(
        operation_id="requests_import",
        request={"application/json": IMPORT_SCHEMA},
        responses={201: ImportBody, 200: ImportBody},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: HttpRequest) -> Response:
        """Import a request: by its name from ReqMgr2, or as a whole document."""
        made, created = _imported(request)
        headers = {"ETag": f'"{made.version}"', "Location": links_of(made)["self"]}
        return Response(ImportBody(made).data, status=201 if created else 200, headers=headers)


def _imported(http: HttpRequest) -> tuple[Request, bool]:
    document = http.data
    if not isinstance(document, Mapping):
        raise InvalidInput("The body must be a JSON object", fields={"body": "not a JSON object"})
    actor, key = actor_of(http), _idempotency_key(http)
    if document.get("source") == "reqmgr2":
        name = parsed(ImportByName, document)["request_name"]
        return services.import_by_name(request_name=name, actor=actor, idempotency_key=key)
    return services.import_request(document=document, actor=actor, idempotency_key=key)


def _idempotency_key(http: HttpRequest) -> str:
    key = http.headers.get("Idempotency-Key", "").strip()
    if len(key) > 200 or not key.isascii() or not key.isprintable():
        raise InvalidInput(
            "Idempotency-Key is not usable",
            fields={"Idempotency-Key": "at most 200 printable ASCII characters"},
        )
    return key


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
        return _told(request_by_name(name))

    @extend_schema(
        operation_id="requests_change",
        request=ChangeInput,
        responses={200: RequestDetail},
        parameters=[IF_MATCH],
    )
    def patch(self, request: HttpRequest, name: str) -> Response:
        """Change priority, sites or memory. Requestors change the priority of their own requests."""
        changes = parsed(ChangeInput, request.data)
        reason = changes.pop("reason")
        row = request_by_name(name)
        check_owner(request, row)
        if role_of(request.user) < Role.OPERATOR and set(changes) != {"priority"}:
            raise PermissionDenied("Requestors change the priority only; ask an operator for the rest.")
        row = services.change_request(
            request=row,
            actor=actor_of(request),
            reason=reason,
            changes=changes,
            expected_version=expected_version(request, current=row.version),
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
    row = services.abort_request(
        request=row,
        actor=actor_of(http),
        reason=reason,
        expected_version=expected_version(http, current=row.version),
    )
    return acted(row, before=before, reason=reason, message="Aborted: what runs is being removed.")


def acted(row: Request, *, before: str, reason: str, message: str, **more: str) -> Response:
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


def request_by_name(name: str) -> Request:
    """The request, or a 404 that says which one is missing."""
    row = Request.objects.select_related("workflow", "previous_version").filter(request_name=name).first()
    if row is None:
        raise NotFound(f"There is no request named {name}")
    return row


def check_owner(http: HttpRequest, row: Request) -> None:
    """Operators may touch every request, requestors their own."""
    owners = {row.requestor, row.submitted_by.removeprefix("user:")}
    if role_of(http.user) < Role.OPERATOR and http.user.get_username() not in owners:
        raise PermissionDenied(
            f"{row.request_name} is {row.requestor}'s; you may change only your own requests."
        )


def _told(row: Request) -> Response:
    context = {"progress": {row.pk: progress_of(row)}}
    return versioned(RequestDetail(row, context=context).data, version=row.version)
