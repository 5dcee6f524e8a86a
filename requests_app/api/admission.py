"""Admission: queue and limits, and the quotas of requestors and groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.admission import limits
from requests_app.api.serializers import LimitsBody
from requests_app.models import Request
from requests_app.operations import ADMISSION_OPERATIONS, QUOTA_OPERATIONS
from requests_app.selectors.forecast import QueuedRow, queued_rows
from requests_app.selectors.requests import AdmissionQueue, admission_queue
from requests_app.services.quotas import QuotaState, known_shares, states_of
from requests_app.states import QuotaScope, RequestStatus
from wms2_project.access.roles import Role, groups_of, operates
from wms2_project.api.bodies import body_of, render
from wms2_project.api.reads import reads
from wms2_project.api.views import ApiView, ListView, versioned
from wms2_project.operations import Operation
from wms2_project.operations.rest import OperationView


@dataclass(frozen=True, slots=True)
class QueuePage(AdmissionQueue):
    """Used capacity, the next request, and a page of queued requests."""

    next: Annotated[str | None, serializers.URLField]
    previous: Annotated[str | None, serializers.URLField]
    results: list[QueuedRow]


QUEUE_PAGE = extend_schema_serializer(many=False)(body_of(QueuePage))  # it is not a page of pages


class QueueView(ListView):
    """The admission queue, including requests blocked by another gate."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    queryset = Request.objects.filter(status=RequestStatus.QUEUED)
    serializer_class = body_of(QueuedRow)
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"position": ("-rank", "created_at", "id")}
    order: ClassVar[str] = "position"

    @extend_schema(operation_id="admission_queue", responses=QUEUE_PAGE)
    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        """Return used capacity, the next request, and all queued requests in order."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        rows = body_of(QueuedRow)(queued_rows(page, now=timezone.now()), many=True).data
        return Response(render(admission_queue()) | self.get_paginated_response(rows).data)

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


@dataclass(frozen=True, slots=True)
class Quotas:
    """Quotas visible to the caller."""

    quotas: list[QuotaState]


@reads("quotas", role=Role.REQUESTOR)
def quotas_list(request: HttpRequest) -> Quotas:
    """Return limits and usage of the caller and their groups; for operators, of everyone."""
    if operates(request.user):
        shares = known_shares()
    else:
        groups = [(QuotaScope.GROUP, name) for name in sorted(groups_of(request.user))]
        shares = [(QuotaScope.REQUESTOR, request.user.get_username()), *groups]
    return Quotas(states_of(shares, now=timezone.now()))


class QuotaView(OperationView):
    """The quota of one requestor or group."""

    operations: ClassVar[dict[str, Operation]] = {one.method: one for one in QUOTA_OPERATIONS}
