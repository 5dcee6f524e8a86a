"""Traces: the call of each span, and for how long. `e2e/test_api.py` tests traces over processes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from django.utils import timezone
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from rest_framework.test import APIClient

from tests.collector import Collector
from tests.integration.factories import DOCUMENT
from wms2_project.access import causes
from wms2_project.models import AuditEvent
from wms2_project.observation.logs import JsonFormatter
from wms2_project.observation.tracing import current_traceparent, span

pytestmark = pytest.mark.django_db
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def traced() -> Iterator[tuple[Collector, TracerProvider]]:
    """Set a provider that collects spans.

    It can be set once per process, so it stays without an exporter afterwards.
    """
    from wms2_project.observation import tracing_setup

    collector = Collector()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        provider = tracing_setup.configure("otlp")
    yield collector, provider
    provider.shutdown()
    collector.close()


@pytest.mark.usefixtures("traced")
def test_logs_inside_a_span_name_its_trace() -> None:
    record = logging.makeLogRecord({"msg": "hello", "levelname": "INFO", "name": "x"})
    with span("work", parent=CALLER):
        body = json.loads(JsonFormatter().format(record))
    assert body["trace_id"] == CALLER.split("-")[1]


def test_work_long_after_the_call_begins_a_trace_of_its_own(
    requestor: APIClient, traced: tuple[Collector, TracerProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    requestor.post("/api/v1/requests", DOCUMENT, headers={"traceparent": CALLER, "X-Request-Id": "call-7"})
    name = AuditEvent.objects.get(target=DOCUMENT["request_name"]).target
    assert causes.cause_of(name, now=timezone.now()).traceparent.split("-")[1] == CALLER.split("-")[1]
    later = causes.cause_of(name, now=timezone.now() + causes.TRACED_FOR)
    assert (later.request_id, later.traceparent) == ("call-7", "")


def test_a_caller_cannot_break_us_with_a_strange_trace(requestor: APIClient) -> None:
    for header in ("nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 5000):
        assert requestor.get("/api/v1/sites", headers={"traceparent": header}).status_code == 200


def test_outside_a_span_there_is_no_trace() -> None:
    assert trace.get_current_span().get_span_context().is_valid is False
    assert current_traceparent() == ""
