"""What can be done with a request, and what can be read beside it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app import services
from requests_app.api.inputs import StopInput
from requests_app.api.requests import IF_MATCH, abort, acted, request_by_name
from requests_app.api.serializers import ActionBody, ProgressBody, TransitionRow, VersionsBody
from requests_app.models import Request, StatusTransition
from requests_app.selectors import progress_of, timeline_of
from wms2_project.api.pagination import OldestFirst
from wms2_project.api.roles import Role, actor_of
from wms2_project.api.views import ApiView, ListView, ReasonInput, expected_version, parsed

_REFUSALS: dict[str, tuple[int, ...]] = {"POST": (409, 412, 503)}


class ReleaseView(ApiView):
    """Let a held request go on."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems = _REFUSALS

    @extend_schema(
        operation_id="requests_release",
        request=ReasonInput,
        responses={200: ActionBody},
        parameters=[IF_MATCH],
    )
    def post(self, request: HttpRequest, name: str) -> Response:
        """Queue a held request again; finished groups are kept."""
        reason = parsed(ReasonInput, request.data)["reason"]
        row = request_by_name(name)
        before = row.status
        row = services.release_request(
            request=row,
            actor=actor_of(request),
            reason=reason,
            expected_version=expected_version(request, current=row.version),
        )
        return acted(row, before=before, reason=reason, message="Released: it waits for admission.")


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
        row = services.stop_request(
            request=row,
            actor=actor_of(request),
            expected_version=expected_version(request, current=row.version),
            **body,
        )
        after = "stays held until it is released" if body["hold"] else "is prepared to resume"
        message = f"Clean stop under way: finished work is kept, then the request {after}."
        return acted(row, before=before, reason=body["reason"], message=message, stop_reason=body["reason"])


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


class TimelineView(ListView):
    """Every status change of a request, oldest first."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = StatusTransition.objects.none()
    serializer_class = TransitionRow
    pagination_class = OldestFirst

    def get_queryset(self) -> QuerySet[StatusTransition]:
        """The changes of the named request."""
        if "name" not in self.kwargs:  # the schema is being written
            return self.queryset
        return timeline_of(request_by_name(self.kwargs["name"]))

    @extend_schema(operation_id="requests_timeline")
    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        """Status changes, oldest first."""
        return super().get(request, *args, **kwargs)


class ProgressView(ApiView):
    """How much of a request is done."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="requests_progress", responses=ProgressBody)
    def get(self, request: HttpRequest, name: str) -> Response:
        """Events, groups, files and blocks done, and when it will end."""
        return Response(ProgressBody(progress_of(request_by_name(name))).data)


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
