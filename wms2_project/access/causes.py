"""The last action of a person on a target: its HTTP call and trace continue in the background work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from wms2_project.models import AuditEvent
from wms2_project.observation.logs import bind
from wms2_project.observation.tracing import span

TRACED_FOR = timedelta(hours=1)  # longer traces are unreadable


@dataclass(frozen=True, slots=True)
class Cause:
    """The HTTP call and span of an action; empty if no person acted."""

    request_id: str = ""
    traceparent: str = ""


def cause_of(target: str, *, now: datetime) -> Cause:
    """Return the cause recorded with the last action on the target."""
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
def caused(work: str, *, target: str, **facts: str) -> Iterator[None]:
    """Run the block in the trace, and log it under the call, of the last action on the target."""
    cause = cause_of(target, now=timezone.now())
    with (
        bind(request=target, request_id=cause.request_id, **facts),
        span(work, parent=cause.traceparent, request=target),
    ):
        yield
