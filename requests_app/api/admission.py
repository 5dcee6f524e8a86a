"""Admission queue and limits."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.admission import limits
from requests_app.api.serializers import LimitsBody
from requests_app.api.why import TurnBody
from requests_app.models import Request
from requests_app.operations import ADMISSION_OPERATIONS
from requests_app.selectors.forecast import places_of
from requests_app.selectors.requests import admission_queue
from requests_app.states import RequestStatus
from wms2_project.access.roles import Role
from wms2_project.api.views import ApiView, ListView, versioned
from wms2_project.operations import Operation
from wms2_project.operations.rest import OperationView

_ROW = ("request_name", "priority", "rank", "status_since", "wait_gate", "wait_reason")


class NextInQueue(serializers.Serializer[Any]):
    """The next request to be admitted."""

    request_name = serializers.CharField()
    priority = serializers.IntegerField()
    rank = serializers.FloatField()
    queued_since = serializers.DateTimeField(source="status_since")


class QueueBody(serializers.Serializer[Any]):
    """Used capacity and the next request."""

    active_dags = serializers.IntegerField()
    max_active_dags = serializers.IntegerField()
    queued_workflows = serializers.IntegerField()
    paused = serializers.BooleanField()
    pause_reason = serializers.CharField()
    next_in_queue = NextInQueue(allow_null=True)


class QueuedRow(NextInQueue):
    """One queued request."""

    position = serializers.IntegerField(
        allow_null=True, help_text="Queue position, 1 being next; null if another gate blocks the request."
    )
    gate = serializers.CharField(
        source="wait_gate", allow_blank=True, help_text="The gate that blocked it at the last check."
    )
    wait_reason = serializers.CharField(allow_blank=True)
    expected_start = TurnBody(allow_null=True)


class QueuePage(QueueBody):
    """Used capacity, the next request, and a page of queued requests."""

    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)
    results = QueuedRow(many=True)


class QueueView(ListView):
    """The admission queue, including requests blocked by another gate."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = Request.objects.filter(status=RequestStatus.QUEUED)
    serializer_class = QueuedRow
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"position": ("-rank", "created_at", "id")}
    order: ClassVar[str] = "position"

    @extend_schema(operation_id="admission_queue", responses=QueuePage(many=False))
    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        """Return used capacity, the next request, and all queued requests in order."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        rows = [
            {name: getattr(row, name) for name in _ROW}
            | {"position": place.position, "expected_start": place.turn}
            for row, place in zip(page, places_of(page, now=timezone.now()), strict=True)
        ]
        shown = self.get_paginated_response(QueuedRow(rows, many=True).data)
        return Response(dict(QueueBody(admission_queue()).data) | dict(shown.data))

    def select(self, body: dict[str, Any], wanted: frozenset[str]) -> dict[str, Any]:
        """Select members of the whole body, in which the rows are one member."""
        return ApiView.select(self, body, wanted)


class LimitsView(OperationView):
    """The admission limits."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    operations: ClassVar[dict[str, Operation]] = {one.method: one for one in ADMISSION_OPERATIONS}

    @extend_schema(operation_id="admission_limits", responses=LimitsBody)
    def get(self, request: HttpRequest) -> Response:
        """Return the current limits."""
        config = limits()
        return versioned(LimitsBody(config).data, version=config.version)
