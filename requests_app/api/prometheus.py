"""`/metrics` for Prometheus. Requires a token with the role viewer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from requests_app.selectors.gauges import families
from wms2_project.access.roles import Role
from wms2_project.api.views import ApiView


class ExpositionRenderer(BaseRenderer):
    """Render the Prometheus text format; problems stay JSON."""

    media_type = "text/plain"
    format = "prometheus"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return data if isinstance(data, bytes) else json.dumps(data).encode()


class Scrape(Collector):
    """Collects the metrics of one scrape."""

    def collect(self) -> Iterator[Metric]:
        yield from families(now=timezone.now())


class MetricsView(ApiView):
    """Metrics."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    renderer_classes = [ExpositionRenderer]

    @extend_schema(operation_id="metrics", responses={(200, "text/plain"): OpenApiTypes.STR})
    def get(self, request: HttpRequest) -> Response:
        """Return all metrics in the Prometheus text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(Scrape())
        return Response(generate_latest(registry), content_type="text/plain; version=0.0.4; charset=utf-8")
