"""Optional traces: spans from the HTTP call through the resulting task to the adapter.

Services do not enqueue tasks, so no message carries the trace context: the audit row of an action stores
it, and the work on the target continues from there. Without configuration every span is a no-op.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind

__all__ = ["SpanKind", "current_trace_id", "current_traceparent", "note", "span"]
_tracer = trace.get_tracer("wms2")


@contextmanager
def span(name: str, *, kind: SpanKind = SpanKind.INTERNAL, parent: str = "", **facts: str) -> Iterator[None]:
    """Run the block or decorated function in a span, a child of the current one or of `parent`."""
    context = propagate.extract({"traceparent": parent}) if parent else None
    with _tracer.start_as_current_span(name, context=context, kind=kind, attributes=facts):
        yield


def note(name: str = "", **facts: str) -> None:
    """Rename the current span or add attributes to it."""
    present = trace.get_current_span()
    if name:
        present.update_name(name)
    for key, value in facts.items():
        present.set_attribute(key, value)


def current_traceparent() -> str:
    """Return the current span in W3C format; empty if nothing is traced."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier.get("traceparent", "")


def current_trace_id() -> str:
    """Return the id of the current trace, for the logs; empty if nothing is traced."""
    present = trace.get_current_span().get_span_context()
    return f"{present.trace_id:032x}" if present.is_valid else ""
