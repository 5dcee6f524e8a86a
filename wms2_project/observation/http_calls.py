"""Every HTTP call is counted, timed and, if traces are on, a span, in the caller's trace if it names one."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from opentelemetry.trace import SpanKind

from wms2_project.observation import counters, tracing


class ObservingMiddleware:
    """Knows a call by its route, never by its path: names in paths would make a series each."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Serve the call and note how it went."""
        began = time.monotonic()
        method = str(request.method) if request.method in _METHODS else "other"
        parent = request.headers.get("traceparent", "")
        with tracing.span(f"HTTP {method}", kind=SpanKind.SERVER, parent=parent):
            response = self.get_response(request)
            route = request.resolver_match.route if request.resolver_match else "none"
            tracing.note(f"{method} /{route}", route=route, status=str(response.status_code))
        status = f"{response.status_code // 100}xx"
        counters.count(counters.HTTP_CALLS, method, route, status, seconds=time.monotonic() - began)
        return response


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
