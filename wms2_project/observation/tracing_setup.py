"""Imported only where traces are on: where spans go. OpenTelemetry's own variables (OTEL_…) say the rest."""

from __future__ import annotations

import os
import socket

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

EXPORTERS: dict[str, type[SpanExporter]] = {"otlp": OTLPSpanExporter, "console": ConsoleSpanExporter}


def configure(exporter: str) -> TracerProvider:
    """From now on every span of this process, and of those it forks, is sent there in batches."""
    named = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "wms2"), "host.name": socket.gethostname()}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(EXPORTERS[exporter]()))
    trace.set_tracer_provider(provider)
    return provider
