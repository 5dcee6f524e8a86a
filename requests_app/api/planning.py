"""Plan preview and input ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from dags_app.planning.plan import NothingToPlan, PlanRefused
from dags_app.selectors import ledger_of
from requests_app.api.inputs import IMPORT_SCHEMA
from requests_app.selectors.preview import preview_request
from requests_app.selectors.requests import request_by_name
from wms2_project.access.roles import Role
from wms2_project.api.views import ApiView
from wms2_project.errors import Conflict, InvalidInput


class PlanView(ApiView):
    """Plan preview."""

    roles: ClassVar[dict[str, Role]] = {"POST": Role.REQUESTOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"POST": (404, 409, 502, 503)}

    @extend_schema(
        operation_id="requests_plan",
        request={"application/json": IMPORT_SCHEMA},
        responses={200: OpenApiTypes.OBJECT},
    )
    def post(self, request: HttpRequest) -> Response:
        """Preview jobs, groups and costs of a document. Nothing is stored."""
        document = request.data
        if not isinstance(document, Mapping):
            raise InvalidInput("The body must be a JSON object", fields={"body": "not a JSON object"})
        try:
            return Response(preview_request(document=document, now=timezone.now(), bounded=True).body)
        except (PlanRefused, NothingToPlan) as error:
            raise Conflict(error.message, cure=error.cure) from error


class LedgerView(ApiView):
    """Input ledger of a request."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="requests_ledger", responses={200: OpenApiTypes.OBJECT})
    def get(self, request: HttpRequest, name: str) -> Response:
        """Return the input by state with run and lumi ranges, or the generated event ranges by round."""
        body: dict[str, Any] = ledger_of(workflow=request_by_name(name).workflow)
        return Response(body)
