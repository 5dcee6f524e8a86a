"""Configuration of the trace exporter, imported only if tracing is on; OTEL_… variables set the rest."""

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
    """Send all spans of this process and its forks to the exporter, in batches."""
    named = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "wms2"), "host.name": socket.gethostname()}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(EXPORTERS[exporter]()))
    trace.set_tracer_provider(provider)
    return provider
