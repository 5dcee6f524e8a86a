"""Middleware of WMS2: request ids, metrics and traces of HTTP calls, and content security policies."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port
from django.template.response import SimpleTemplateResponse
from django.urls import Resolver404, resolve
from opentelemetry.trace import SpanKind

from wms2_project.observation import counters, tracing
from wms2_project.observation.logs import bind

_LEGAL_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NOTHING = "default-src 'none'; frame-ancestors 'none'"
_PAGE = (
    "default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " font-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
_API, _DOCS, _CONSOLE = "/api/", "/api/v1/docs", "/admin/"
_WORKFLOWS = "/api/v1/workflows/"


class RequestIdMiddleware:
    """Binds the request id to the logs and returns it: the caller's X-Request-Id if legal, else a new one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-Id", "")
        request_id = given if _LEGAL_REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        with bind(request_id=request_id):
            response = self.get_response(request)
        response["X-Request-Id"] = request_id
        return response


class ObservingMiddleware:
    """Counts, times and traces HTTP calls by route; paths contain names and would make a series each."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
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


class JobCallMiddleware:
    """Answers calls of jobs without sessions, cookies and forms, which their views do not use.

    They are most of the calls that WMS2 gets. What stands before it in MIDDLEWARE applies to them as well.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method != "POST" or not request.path_info.startswith(_WORKFLOWS):
            return self.get_response(request)
        try:
            match = resolve(request.path_info)
        except Resolver404:
            return self.get_response(request)
        if not getattr(getattr(match.func, "cls", None), "for_jobs", False):
            return self.get_response(request)
        request.resolver_match = match
        response: HttpResponse = match.func(request, *match.args, **match.kwargs)
        return response.render() if isinstance(response, SimpleTemplateResponse) else response


class ContentSecurityMiddleware:
    """Adds a content security policy to every response."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        console = request.path.startswith(_CONSOLE)
        policy = policy_for(request.path, events=events_origin(request) if console else "")
        response.headers.setdefault("Content-Security-Policy", policy)
        return response


def policy_for(path: str, *, events: str = "") -> str:
    """Return the policy of a path: nothing for data, own files for pages, and events.

    The console needs `unsafe-eval`, because Alpine.js compiles attributes.
    """
    if path.startswith(_API) and path != _DOCS:
        return _NOTHING
    console = path.startswith(_CONSOLE)
    page = _PAGE.format(scripts="'self' 'unsafe-eval'" if console else "'self'")
    return f"{page}; connect-src 'self' {events}" if console and events else page


def events_origin(request: HttpRequest) -> str:
    """Return the origin of the streams process; empty if it is that of the page."""
    if not settings.STREAMS_PORT:
        return ""
    name, _port = split_domain_port(request.get_host())
    return f"{request.scheme}://{name}:{settings.STREAMS_PORT}"
