"""What went wrong, and the two ends of a hold: release, with or without changes, and fail."""

from __future__ import annotations

from dataclasses import asdict
from typing import ClassVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.api.inputs import ReleaseInput, modifications_of
from requests_app.api.requests import acted, request_by_name
from requests_app.api.serializers import ActionBody
from requests_app.diagnosis import diagnose, diagnose_all
from requests_app.services import failing, releasing
from wms2_project.api.docs import IF_MATCH
from wms2_project.api.roles import Role, actor_of
from wms2_project.api.views import ApiView, Input, ReasonInput, asked, expected_version, parsed

_REFUSALS: dict[str, tuple[int, ...]] = {"POST": (409, 412, 503)}


class ReleaseView(ApiView):
    """Let a held request go on."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems = _REFUSALS

    @extend_schema(
        operation_id="requests_release",
        request=ReleaseInput,
        responses={200: ActionBody},
        parameters=[IF_MATCH],
    )
    def post(self, request: HttpRequest, name: str) -> Response:
        """Queue a held request again, changed as told; finished groups are kept."""
        body = parsed(ReleaseInput, request.data)
        reason, dry_run = body.pop("reason"), body.pop("dry_run")
        changes = modifications_of(body)
        row, now = request_by_name(name), timezone.now()
        before = row.status
        if dry_run:
            seen = asdict(releasing.preview_release(request=row, modifications=changes, now=now))
            told = "A dry run: nothing was changed."
            return acted(row, before=before, reason=reason, message=told, preview=seen)
        row = releasing.release_request(
            request=row,
            actor=actor_of(request),
            reason=reason,
            now=now,
            expected_version=expected_version(request, current=row.version),
            modifications=changes,
        )
        return acted(row, before=before, reason=reason, message="Released: it waits for admission.")


class FailView(ApiView):
    """Give a request up."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems = _REFUSALS

    @extend_schema(
        operation_id="requests_fail", request=ReasonInput, responses={200: ActionBody}, parameters=[IF_MATCH]
    )
    def post(self, request: HttpRequest, name: str) -> Response:
        """End the request as failed: its jobs are removed, its outputs invalidated. May be repeated."""
        reason = parsed(ReasonInput, request.data)["reason"]
        row = request_by_name(name)
        before = row.status
        row = failing.fail_request(
            request=row,
            actor=actor_of(request),
            reason=reason,
            now=timezone.now(),
            expected_version=expected_version(request, current=row.version),
        )
        return acted(row, before=before, reason=reason, message="Failed: its outputs are being invalidated.")


class InvalidateView(ApiView):
    """Take the outputs of an ended request back."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.OPERATOR}
    problems = _REFUSALS

    @extend_schema(
        operation_id="requests_invalidate",
        request=ReasonInput,
        responses={200: ActionBody},
        parameters=[IF_MATCH],
    )
    def post(self, request: HttpRequest, name: str) -> Response:
        """Invalidate all datasets of an ended request; its status stays. May be repeated."""
        reason = parsed(ReasonInput, request.data)["reason"]
        row = request_by_name(name)
        row = failing.invalidate_request(
            request=row,
            actor=actor_of(request),
            reason=reason,
            now=timezone.now(),
            expected_version=expected_version(request, current=row.version),
        )
        return acted(row, before=row.status, reason=reason, message="Its outputs are being invalidated.")


class ErrorsView(ApiView):
    """What went wrong with a request."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="requests_errors", responses={200: OpenApiTypes.OBJECT})
    def get(self, request: HttpRequest, name: str) -> Response:
        """Failures by category, site and code; clusters of alike ones, each with what may help."""
        row = request_by_name(name)
        told = asdict(diagnose(row, now=timezone.now()))
        return Response({"request_name": row.request_name, "status": row.status, **told})


class ErrorsQuery(Input):
    """How far back, and how many."""

    from_json = False

    days = serializers.IntegerField(min_value=1, max_value=365, default=7)
    limit = serializers.IntegerField(min_value=1, max_value=500, default=100)


class AllErrorsView(ApiView):
    """What goes wrong across requests."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(
        operation_id="errors",
        responses={200: OpenApiTypes.OBJECT},
        parameters=[ErrorsQuery],
    )
    def get(self, request: HttpRequest) -> Response:
        """Clusters of alike failures of all requests, the most frequent first."""
        query = asked(ErrorsQuery, request)
        return Response({"results": diagnose_all(now=timezone.now(), **query)})
