"""Probes. They are anonymous and therefore say which part fails, never why."""

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
    """ok: everything works. degraded: the API works, something behind it does not. down: it does not."""

    status = serializers.ChoiceField(choices=STATUSES)
    parts = serializers.DictField(child=serializers.ChoiceField(choices=["ok", "down"]), required=False)


class ProbeView(ApiView):
    """A probe looks at no session and no token and is not throttled: it must answer when they cannot."""

    authentication_classes = ()
    throttle_classes: Sequence[type[BaseThrottle]] = ()
    roles: ClassVar[dict[str, Role]] = {"GET": Role.ANONYMOUS}


class LivezView(ProbeView):
    """This process answers; nothing else is asked."""

    @extend_schema(operation_id="livez", responses=HealthBody)
    def get(self, request: HttpRequest) -> Response:
        """Always 200 while the process lives."""
        return Response({"status": "ok"})


class ReadyzView(ProbeView):
    """This process can serve calls."""

    @extend_schema(operation_id="readyz", responses={200: HealthBody, 503: HealthBody})
    def get(self, request: HttpRequest) -> Response:
        """200 when the database answers and its schema is ours, else 503."""
        return _told(readiness())


class HealthView(ProbeView):
    """The whole of WMS2, workers included."""

    throttle_classes = ApiView.throttle_classes  # asking the workers costs more than a probe should

    @extend_schema(operation_id="health", responses={200: HealthBody, 503: HealthBody})
    def get(self, request: HttpRequest) -> Response:
        """200 when ok or degraded, 503 when down."""
        return _told(health())


def _told(parts: list[Part]) -> Response:
    down = any(part.needed and not part.works for part in parts)
    degraded = not all(part.works for part in parts)
    body = {
        "status": "down" if down else "degraded" if degraded else "ok",
        "parts": {part.name: "ok" if part.works else "down" for part in parts},
    }
    return Response(body, status=503 if down else 200)
