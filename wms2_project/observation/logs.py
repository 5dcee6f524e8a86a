"""One log line per event, for people or as JSON, with the bound facts; secrets never get that far.

`bind()` attaches facts (the request name, the HTTP request id) to everything logged inside it.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponse

from wms2_project.observation.tracing import current_trace_id

_bound: ContextVar[dict[str, str]] = ContextVar("wms2_log_facts", default={})  # noqa: B039 — never mutated
_LEGAL_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
HIDDEN = "[hidden]"
_SECRETS = re.compile(
    r"""(?P<kept>(?i:\b(?:bearer|basic)\s+
              |(?:passw(?:or)?d|secret|token|api[_-]?key|authorization)[\w-]{0,20}["']?\s{0,3}[:=]\s{0,3}["']?
               (?:(?:bearer|basic)\s{1,3})?))[^\s"',;@]{4,}
      |(?P<user>://[^\s:/@]{0,100}:)[^\s/@]+(?=@)
      |\bwms2_[A-Za-z0-9_-]{30,}
      |\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*""",
    re.VERBOSE,
)


@contextmanager
def bind(**facts: str) -> Iterator[None]:
    """Add facts to every log line written inside this block; an empty one says nothing."""
    token = _bound.set(_bound.get() | {key: value for key, value in facts.items() if value})
    try:
        yield
    finally:
        _bound.reset(token)


def current_request_id() -> str:
    """The id of the HTTP request being served, or an empty string."""
    return _bound.get().get("request_id", "")


def redacted(text: str) -> str:
    """The text without tokens, passwords and what else looks like a secret."""
    return _SECRETS.sub(lambda found: (found["kept"] or found["user"] or "") + HIDDEN, text)


class LineFormatter(logging.Formatter):
    """Renders a record as one readable, greppable line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; a traceback follows it where there is one."""
        facts = "".join(f" {key}={value}" for key, value in _facts().items())
        line = f"{_time(record)} {record.levelname} {record.name} {record.getMessage()}{facts}"
        line = line.replace("\n", "\\n")
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return redacted(line)


class JsonFormatter(logging.Formatter):
    """Renders a record as one JSON object, for Loki and its like."""

    def format(self, record: logging.LogRecord) -> str:
        """The object, on one line; the bound facts are its members."""
        told = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": redacted(record.getMessage()),
        }
        if record.exc_info:
            told["exception"] = redacted(self.formatException(record.exc_info))
        return json.dumps(
            {key: redacted(value) for key, value in _facts().items()} | told, ensure_ascii=False
        )


def _facts() -> dict[str, str]:
    trace = current_trace_id()
    return _bound.get() | ({"trace_id": trace} if trace else {})


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


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
