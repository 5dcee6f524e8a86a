"""One log line per event: time, level, logger, message, then the bound facts as key=value.

`bind()` attaches facts (the request name, the HTTP request id) to everything logged inside it.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponse

_bound: ContextVar[dict[str, str]] = ContextVar("wms2_log_facts", default={})  # noqa: B039 — never mutated
_LEGAL_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")


@contextmanager
def bind(**facts: str) -> Iterator[None]:
    """Add facts to every log line written inside this block."""
    token = _bound.set(_bound.get() | facts)
    try:
        yield
    finally:
        _bound.reset(token)


def current_request_id() -> str:
    """The id of the HTTP request being served, or an empty string."""
    return _bound.get().get("request_id", "")


class LineFormatter(logging.Formatter):
    """Renders a record as one readable, greppable line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; a traceback follows it where there is one."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        facts = "".join(f" {key}={value}" for key, value in _bound.get().items())
        line = f"{at} {record.levelname} {record.name} {record.getMessage()}{facts}".replace("\n", "\\n")
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class RequestIdMiddleware:
    """Takes the caller's X-Request-Id if it is harmless, else makes one, and answers with it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Serve the request with its id bound into the logs."""
        given = request.headers.get("X-Request-Id", "")
        request_id = given if _LEGAL_REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        with bind(request_id=request_id):
            response = self.get_response(request)
        response["X-Request-Id"] = request_id
        return response
