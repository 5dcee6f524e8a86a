"""What went wrong, with one request and across requests."""

from __future__ import annotations

from dataclasses import asdict
from typing import ClassVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.diagnosis import diagnose, diagnose_all
from requests_app.selectors import request_by_name
from wms2_project.api.roles import Role
from wms2_project.api.views import ApiView, Input, asked


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
