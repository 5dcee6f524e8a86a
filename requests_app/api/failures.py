"""Failures of one request and across requests."""

from __future__ import annotations

from dataclasses import asdict
from typing import ClassVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.selectors.diagnosis import diagnose, diagnose_all
from requests_app.selectors.requests import request_by_name
from wms2_project.access.roles import Role
from wms2_project.api.views import ApiView, Input, asked


class ErrorsView(ApiView):
    """Failures of a request."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="requests_errors", responses={200: OpenApiTypes.OBJECT})
    def get(self, request: HttpRequest, name: str) -> Response:
        """Return failures by category, site and exit code, and clusters with suggestions."""
        row = request_by_name(name)
        found = asdict(diagnose(row, now=timezone.now()))
        return Response({"request_name": row.request_name, "status": row.status, **found})


class ErrorsQuery(Input):
    """Time window and limit."""

    from_json = False

    days = serializers.IntegerField(min_value=1, max_value=365, default=7)
    limit = serializers.IntegerField(min_value=1, max_value=500, default=100)


class AllErrorsView(ApiView):
    """Failures across requests."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(
        operation_id="errors",
        responses={200: OpenApiTypes.OBJECT},
        parameters=[ErrorsQuery],
    )
    def get(self, request: HttpRequest) -> Response:
        """Return clusters of similar failures of all requests, the most frequent first."""
        query = asked(ErrorsQuery, request)
        return Response({"results": diagnose_all(now=timezone.now(), **query)})
