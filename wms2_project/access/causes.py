"""What a person did last to a thing: the call and the trace that work on it goes on from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from wms2_project.models import AuditEvent
from wms2_project.observation.logs import bind
from wms2_project.observation.tracing import span

TRACED_FOR = timedelta(hours=1)  # a trace that grew for weeks would show nothing


@dataclass(frozen=True, slots=True)
class Cause:
    """The HTTP call and the span behind it; empty when nobody acted."""

    request_id: str = ""
    traceparent: str = ""


def cause_of(target: str, *, now: datetime) -> Cause:
    """The last action on this target."""
    last = (
        AuditEvent.objects.filter(target=target)
        .order_by("-id")
        .only("request_id", "traceparent", "at")
        .first()
    )
    if last is None:
        return Cause()
    return Cause(last.request_id, last.traceparent if now - last.at < TRACED_FOR else "")


@contextmanager
def caused(doing: str, *, target: str, **facts: str) -> Iterator[None]:
    """Do this in the trace, and log it under the call, of what a person did last to the target."""
    cause = cause_of(target, now=timezone.now())
    with (
        bind(request=target, request_id=cause.request_id, **facts),
        span(doing, parent=cause.traceparent, request=target),
    ):
        yield
