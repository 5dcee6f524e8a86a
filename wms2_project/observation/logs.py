"""Log formats, plain and JSON, with bound facts and without secrets.

`bind()` adds facts (the request name, the HTTP request id) to everything logged inside it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from wms2_project.observation.tracing import current_trace_id

_bound: ContextVar[dict[str, str]] = ContextVar("wms2_log_facts", default={})  # noqa: B039 — never mutated
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
    """Add facts to every log line written in this block; empty ones are left out."""
    token = _bound.set(_bound.get() | {key: value for key, value in facts.items() if value})
    try:
        yield
    finally:
        _bound.reset(token)


def current_request_id() -> str:
    """Return the id of the HTTP request being served; empty outside one."""
    return _bound.get().get("request_id", "")


def redacted(text: str) -> str:
    """Return the text with tokens, passwords and similar secrets replaced."""
    return _SECRETS.sub(lambda found: (found["kept"] or found["user"] or "") + HIDDEN, text)


class LineFormatter(logging.Formatter):
    """Renders a record as one line, followed by a traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        facts = "".join(f" {key}={value}" for key, value in _facts().items())
        line = f"{_time(record)} {record.levelname} {record.name} {record.getMessage()}{facts}"
        line = line.replace("\n", "\\n")
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return redacted(line)


class JsonFormatter(logging.Formatter):
    """Renders a record as one JSON object with the bound facts as members."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": redacted(record.getMessage()),
        }
        if record.exc_info:
            fields["exception"] = redacted(self.formatException(record.exc_info))
        return json.dumps(
            {key: redacted(value) for key, value in _facts().items()} | fields, ensure_ascii=False
        )


def _facts() -> dict[str, str]:
    trace = current_trace_id()
    return _bound.get() | ({"trace_id": trace} if trace else {})


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
