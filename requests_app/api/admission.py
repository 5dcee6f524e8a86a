"""Admission: who waits, and the limits operators edit live."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.admission import change_limits, limits
from requests_app.models import AdmissionConfig
from requests_app.selectors import admission_queue
from wms2_project.api.docs import IF_MATCH
from wms2_project.api.roles import Role, actor_of
from wms2_project.api.views import ApiView, ReasonInput, expected_version, parsed, versioned


class NextInQueue(serializers.Serializer[Any]):
    """The request that goes first."""

    request_name = serializers.CharField()
    priority = serializers.IntegerField()
    rank = serializers.FloatField()
    queued_since = serializers.DateTimeField(source="status_since")


class QueueBody(serializers.Serializer[Any]):
    """How full WMS2 is and who is next."""

    active_dags = serializers.IntegerField()
    max_active_dags = serializers.IntegerField()
    queued_workflows = serializers.IntegerField()
    paused = serializers.BooleanField()
    pause_reason = serializers.CharField()
    next_in_queue = NextInQueue(allow_null=True)


class LimitsBody(serializers.ModelSerializer[AdmissionConfig]):
    """The limits in force."""

    class Meta:
        model = AdmissionConfig
        fields = (
            "max_active_dags", "paused", "pause_reason", "storage_critical_fraction", "updated_by",
            "updated_at", "version",
        )  # fmt: skip
        read_only_fields = fields


class LimitsInput(ReasonInput):
    """Which limits to change; what is absent stays."""

    max_active_dags = serializers.IntegerField(min_value=0, max_value=100_000, required=False)
    paused = serializers.BooleanField(required=False)
    pause_reason = serializers.CharField(max_length=1000, required=False)
    storage_critical_fraction = serializers.FloatField(min_value=0.01, max_value=1, required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """A change that changes nothing is a slip."""
        if set(attrs) == {"reason"}:
            raise serializers.ValidationError({"body": "Name at least one limit to change."})
        return attrs


class QueueView(ApiView):
    """The admission queue."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="admission_queue", responses=QueueBody)
    def get(self, request: HttpRequest) -> Response:
        """How full WMS2 is and who is next."""
        return Response(QueueBody(admission_queue()).data)


class LimitsView(ApiView):
    """The admission limits."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER, "PATCH": Role.OPERATOR}
    problems: ClassVar[dict[str, tuple[int, ...]]] = {"PATCH": (409, 412)}

    @extend_schema(operation_id="admission_limits", responses=LimitsBody)
    def get(self, request: HttpRequest) -> Response:
        """The limits in force."""
        config = limits()
        return versioned(LimitsBody(config).data, version=config.version)

    @extend_schema(
        operation_id="admission_change_limits",
        request=LimitsInput,
        responses={200: LimitsBody},
        parameters=[IF_MATCH],
    )
    def patch(self, request: HttpRequest) -> Response:
        """Change limits at once, for everybody."""
        changes = parsed(LimitsInput, request.data)
        reason = changes.pop("reason")
        config = change_limits(
            changes=changes,
            actor=actor_of(request),
            reason=reason,
            expected_version=expected_version(request, current=limits().version),
        )
        return versioned(LimitsBody(config).data, version=config.version)
