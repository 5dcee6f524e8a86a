"""GET /requests/{name}/why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.selectors.requests import request_by_name
from requests_app.selectors.why import why
from requests_app.states import WHY, RequestStatus
from wms2_project.access.roles import Role
from wms2_project.api.views import ApiView


class GateBody(serializers.Serializer[Any]):
    """Result of one gate."""

    name = serializers.CharField()
    verdict = serializers.ChoiceField(choices=["pass", "block"])
    detail = serializers.CharField()
    evidence = serializers.DictField()
    since = serializers.DateTimeField(allow_null=True)
    remedy = serializers.CharField(allow_blank=True)
    opens_at = serializers.DateTimeField(
        allow_null=True, help_text="When the gate opens automatically, if known."
    )


class TurnBody(serializers.Serializer[Any]):
    """Estimated admission of a queued request, from the pace of running requests."""

    position = serializers.IntegerField()
    places_needed = serializers.IntegerField(help_text="Number of running requests that must end first.")
    estimated_from = serializers.IntegerField(help_text="Number of running requests with a known pace.")
    earliest = serializers.DateTimeField()
    likely = serializers.DateTimeField()
    latest = serializers.DateTimeField()


class ConditionBody(serializers.Serializer[Any]):
    """One requirement of an idle job."""

    text = serializers.CharField()
    slots = serializers.IntegerField(help_text="Number of slots that match it.")


class AnalysisBody(serializers.Serializer[Any]):
    """HTCondor's own match analysis of one idle job."""

    job_id = serializers.CharField()
    counts = serializers.DictField(child=serializers.IntegerField())
    conditions = ConditionBody(many=True)
    advice = serializers.CharField(allow_blank=True)


class WhyBody(serializers.Serializer[Any]):
    """Explanation of the request's status."""

    request_name = serializers.CharField()
    status = serializers.CharField()
    status_why = serializers.CharField()
    status_since = serializers.DateTimeField()
    summary = serializers.CharField()
    gates = GateBody(many=True)
    turn = TurnBody(allow_null=True)
    idle_jobs = AnalysisBody(allow_null=True)
    idle_jobs_note = serializers.CharField(allow_blank=True)
    gaps = serializers.CharField(allow_blank=True, help_text="Input that will not be processed, and why.")


class WhyView(ApiView):
    """Explanation of a request's status."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @extend_schema(operation_id="requests_why", responses=WhyBody)
    def get(self, request: HttpRequest, name: str) -> Response:
        """Return every gate of the present status with verdict, evidence, start time and remedy."""
        row = request_by_name(name)
        explanation = why(row, now=timezone.now())
        body = {
            "request_name": row.request_name,
            "status": row.status,
            "status_why": WHY[RequestStatus(row.status)],
            "status_since": row.status_since,
            **asdict(explanation),
        }
        return Response(WhyBody(body).data)
