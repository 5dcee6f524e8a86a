"""Calls and replies of the simulated services, without sockets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from urllib.parse import parse_qs, unquote

JSON = "application/json"
JSON_STREAM = "application/x-json-stream"
HTML = "text/html; charset=utf-8"
BYTES = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Call:
    """A request; `parts` are the decoded path segments below the service's prefix."""

    method: str
    service: str
    parts: tuple[str, ...]
    query: dict[str, list[str]]
    headers: Message
    body: bytes
    now: float
    target: str
    stuck: bool = False

    def argument(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]

    def document(self) -> Any:
        """Return the body as JSON; refuse a body that is not JSON."""
        try:
            return json.loads(self.body or b"null")
        except ValueError as error:
            raise Refused(Reply(400, f"body is not JSON: {error}".encode(), HTML)) from error


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


class Refused(Exception):
    """Ends a call with this reply and rolls back its changes."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


def parse_target(target: str) -> tuple[str, tuple[str, ...], dict[str, list[str]]]:
    """Split a request target into the service, the path below it and the query; names may contain %2F."""
    path, _, query = target.partition("?")
    segments = [unquote(segment) for segment in path.strip("/").split("/")]
    return segments[0], tuple(segments[1:]), parse_qs(query, keep_blank_values=True)


def json_reply(document: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(document).encode())


def stream_reply(rows: Iterable[Any]) -> Reply:
    """Return one JSON document per line, like Rucio's lists."""
    return Reply(200, b"".join(json.dumps(row).encode() + b"\n" for row in rows), JSON_STREAM)
