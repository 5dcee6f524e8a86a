"""Probes. They are anonymous, so they name the failing component but no details."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle

from wms2_project.access.roles import Role
from wms2_project.api.views import ApiView
from wms2_project.observation.health import Part, health, readiness

STATUSES = ["ok", "degraded", "down"]


class HealthBody(serializers.Serializer[Any]):
    """ok: all works. degraded: the API works, a component behind it does not. down: the API does not work."""

    status = serializers.ChoiceField(choices=STATUSES)
    parts = serializers.DictField(child=serializers.ChoiceField(choices=["ok", "down"]), required=False)
    reasons = serializers.DictField(
        child=serializers.CharField(), required=False, help_text="Reason for each component that is down."
    )


class ProbeView(ApiView):
    """Base of probes: no authentication and no throttle, because both may be what fails."""

    authentication_classes = ()
    throttle_classes: Sequence[type[BaseThrottle]] = ()
    roles: ClassVar[dict[str, Role]] = {"GET": Role.ANONYMOUS}


class LivezView(ProbeView):
    """Liveness of this process."""

    @extend_schema(operation_id="livez", responses=HealthBody)
    def get(self, request: HttpRequest) -> Response:
        """Return 200 while the process runs."""
        return Response({"status": "ok"})


class ReadyzView(ProbeView):
    """Readiness of this process."""

    @extend_schema(operation_id="readyz", responses={200: HealthBody, 503: HealthBody})
    def get(self, request: HttpRequest) -> Response:
        """Return 200 if the database answers and its schema is current, else 503."""
        return _answer(readiness())


class HealthView(ProbeView):
    """Health of all components, including workers."""

    throttle_classes = ApiView.throttle_classes  # a call of the workers costs more than a probe should

    @extend_schema(operation_id="health", responses={200: HealthBody, 503: HealthBody})
    def get(self, request: HttpRequest) -> Response:
        """Return 200 when ok or degraded, 503 when down."""
        return _answer(health())


def _answer(parts: list[Part]) -> Response:
    down = any(part.needed and not part.works for part in parts)
    degraded = not all(part.works for part in parts)
    body: dict[str, Any] = {
        "status": "down" if down else "degraded" if degraded else "ok",
        "parts": {part.name: "ok" if part.works else "down" for part in parts},
    }
    if reasons := {part.name: part.reason for part in parts if part.reason}:
        body["reasons"] = reasons
    return Response(body, status=503 if down else 200)
