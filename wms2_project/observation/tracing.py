"""Traces, opt-in: spans from the HTTP call through the task it causes to the adapter that acts.

Services never enqueue, so no message carries the context: the audit row of an action keeps it, and whoever
works on what was acted upon goes on from there. Pure, and without configuration every span is a no-op.
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
    """A span around the block or the decorated function, below the present one or the one `parent` names."""
    context = propagate.extract({"traceparent": parent}) if parent else None
    with _tracer.start_as_current_span(name, context=context, kind=kind, attributes=facts):
        yield


def note(name: str = "", **facts: str) -> None:
    """Name the present span better, or add to what it tells."""
    present = trace.get_current_span()
    if name:
        present.update_name(name)
    for key, value in facts.items():
        present.set_attribute(key, value)


def current_traceparent() -> str:
    """The present span, as W3C spells it; empty when nothing is traced."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier.get("traceparent", "")


def current_trace_id() -> str:
    """The present trace, for the logs; empty when nothing is traced."""
    present = trace.get_current_span().get_span_context()
    return f"{present.trace_id:032x}" if present.is_valid else ""
