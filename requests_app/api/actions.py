"""What can be done with a request, and what can be read beside it."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from dags_app.api.serializers import DAGRow
from dags_app.api.views import dag_by_id
from requests_app.api.inputs import RestartInput, ShareInput, StopInput
from requests_app.api.requests import abort, acted, check_owner, request_by_name
from requests_app.api.serializers import (
    ActionBody,
    RestartBody,
    RestartPreviewBody,
    TimelineRow,
    VersionsBody,
    links_of,
)
from requests_app.models import Request, TimelineEntry
from requests_app.selectors import timeline_of
from requests_app.services import drafting, owning, rescuing, restarting, steering
from requests_app.states import RequestStatus
from wms2_project.api.docs import IF_MATCH
from wms2_project.api.roles import Role, actor_of
from wms2_project.api.views import ApiView, ListView, ReasonInput, expected_version, parsed

_REFUSALS: dict[str, tuple[int, ...]] = {"POST": (409, 412, 503)}


class SubmitView(ApiView):
    """Submit a draft."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.REQUESTOR}
    problems = _REFUSALS

    @extend_schema(
        operation_id="requests_submit",
        request=ReasonInput,
        responses={200: ActionBody},
        parameters=[IF_MATCH],
    )
    def post(self, request: HttpRequest, name: str) -> Response:
        """Hand a draft over to WMS2. Requestors submit their own."""
        reason = parsed(ReasonInput, request.data)["reason"]
        row = request_by_name(name)
        check_owner(request, row)
        before = row.status
        row = drafting.submit_draft(
            request=row,
            actor=actor_of(request),
            reason=reason,
            expected_version=expected_version(request, current=row.version),
        )
        return acted(row, before=before, reason=reason, message="Submitted: its input is being resolved.")


class StopView(ApiView):
    """Stop a request cleanly."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems = _REFUSALS

    @extend_schema(
        operation_id="requests_stop", request=StopInput, responses={200: ActionBody}, parameters=[IF_MATCH]
    )
    def post(self, request: HttpRequest, name: str) -> Response:
        """Stop the DAG, keep what is done, then resume or stay held."""
        body = parsed(StopInput, request.data)
        row = request_by_name(name)
        before = row.status
        row = steering.stop_request(
            request=row,
            actor=actor_of(request),
            expected_version=expected_version(request, current=row.version),
            **body,
        )
        message = _stop_message(row)
        return acted(row, before=before, reason=body["reason"], message=message, stop_reason=body["reason"])


def _stop_message(row: Request) -> str:
    if row.status == RequestStatus.HELD:
        return "Nothing was running: the request is held until it is released."
    after = "stays held until it is released" if row.hold_after_stop else "is prepared to resume"
    return f"Clean stop under way: finished work is kept, then the request {after}."


class ShareView(ApiView):
    """Allow a request to write into datasets of others."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems = _REFUSALS

    @extend_schema(
        operation_id="requests_share", request=ShareInput, responses={200: ActionBody}, parameters=[IF_MATCH]
    )
    def post(self, request: HttpRequest, name: str) -> Response:
        """Allow sharing of output datasets that belong to another request, or that DBS has already."""
        body = parsed(ShareInput, request.data)
        row = request_by_name(name)
        before = row.status
        row = owning.share_outputs(
            request=row,
            actor=actor_of(request),
            now=timezone.now(),
            expected_version=expected_version(request, current=row.version),
            **body,
        )
        told = "Sharing is allowed: a draft can be submitted now, a held request released."
        return acted(row, before=before, reason=body["reason"], message=told)


class AbortView(ApiView):
    """Cancel a request for good; the same as DELETE, for clients whose DELETE has no body."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.REQUESTOR}
    problems = _REFUSALS

    @extend_schema(
        operation_id="requests_abort", request=ReasonInput, responses={200: ActionBody}, parameters=[IF_MATCH]
    )
    def post(self, request: HttpRequest, name: str) -> Response:
        """Abort the request."""
        return abort(request, name, reason=parsed(ReasonInput, request.data)["reason"])


class RestartView(ApiView):
    """Kill and clone."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems = _REFUSALS

    @extend_schema(
        operation_id="requests_restart",
        request=RestartInput,
        responses={201: RestartBody, 200: RestartPreviewBody},
        parameters=[IF_MATCH],
    )
    def post(self, request: HttpRequest, name: str) -> Response:
        """End the request and submit the next version of it; old outputs stay valid until it is complete."""
        body = parsed(RestartInput, request.data)
        row = request_by_name(name)
        if body.pop("dry_run"):
            policy = body.get("cleanup_policy")
            seen = restarting.preview_restart(request=row, actor=actor_of(request), cleanup_policy=policy)
            return Response(RestartPreviewBody(seen).data)
        made = restarting.restart_request(
            request=row,
            actor=actor_of(request),
            expected_version=expected_version(request, current=row.version),
            **body,
        )
        told = {"previous": row, "current": made, "output_datasets": made.workflow.output_datasets}
        headers = {"ETag": f'"{made.version}"', "Location": links_of(made)["self"]}
        return Response(RestartBody(told).data, status=201, headers=headers)


class RescueView(ApiView):
    """Submit a DAG again that ended or was removed."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (409,)}

    @extend_schema(operation_id="dags_rescue", request=ReasonInput, responses={201: DAGRow})
    def post(self, request: HttpRequest, dag_id: UUID) -> Response:
        """Queue the held request with a rescue of this DAG; groups that are done stay done."""
        reason = parsed(ReasonInput, request.data)["reason"]
        made = rescuing.rescue_dag(dag=dag_by_id(dag_id), actor=actor_of(request), reason=reason)
        return Response(DAGRow(made).data, status=201)


@extend_schema_view(
    get=extend_schema(
        operation_id="requests_timeline", description="Status changes, edits and actions, oldest first."
    )
)
class TimelineView(ListView):
    """What happened to a request, oldest first."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = TimelineEntry.objects.none()
    serializer_class = TimelineRow
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"at": ("at", "id")}
    order: ClassVar[str] = "at"

    def get_queryset(self) -> QuerySet[TimelineEntry]:
        """The entries of the named request."""
        if "name" not in self.kwargs:  # the schema is being written
            return self.queryset
        return timeline_of(request_by_name(self.kwargs["name"], bare=True))


class VersionsView(ApiView):
    """The history of a request across restarts."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="requests_versions", responses=VersionsBody)
    def get(self, request: HttpRequest, name: str) -> Response:
        """The newest version and those it replaced, newest first."""
        versions = _versions(request_by_name(name))
        earlier = [
            {
                "request_name": row.request_name,
                "processing_version": row.processing_version,
                "status": row.status,
                "superseded_by": newer.request_name,
                "failure_reason": _last_reason(row),
            }
            for newer, row in pairwise(versions)
        ]
        return Response(VersionsBody({"current": versions[0], "versions": earlier}).data)


def _versions(row: Request) -> list[Request]:
    """All versions, newest first; a request has at most a handful."""
    versions = [row]
    while newer := Request.objects.filter(previous_version=versions[0]).first():
        versions.insert(0, newer)
    while older := versions[-1].previous_version:
        versions.append(older)
    return versions


def _last_reason(row: Request) -> str:
    last = row.transitions.order_by("-id").first()
    return last.reason if last else ""
