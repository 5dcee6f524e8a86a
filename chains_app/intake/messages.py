"""Parses one message: an announcement, an event of Rucio, or an unusable message. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from requests_app.documents.limits import check_size
from wms2_project.errors import InvalidInput

MAX_BYTES = 1024 * 1024
FIELDS = frozenset(
    {"uid", "id", "name", "template", "parameters", "priority", "correlation_id", "callback_url"}
)
TEXTS = frozenset({"uid", "name", "template", "correlation_id", "callback_url"})


class Refused(Exception):
    """Error: the message cannot be used. Its text is the reason."""


class Announced(NamedTuple):
    """The values of an announcement, of the right types; their grammar is not checked yet."""

    uid: str
    name: str
    template: str = ""
    parameters: Mapping[str, Any] | None = None
    priority: int | None = None
    correlation_id: str = ""
    callback_url: str = ""


def read_message(body: bytes, *, event_types: frozenset[str]) -> Announced | None:
    """Return the announcement in a message; None for an event that announces nothing.

    `event_types`: the events of Rucio that announce a dataset, in lower case. Raises Refused.
    """
    if len(body) > MAX_BYTES:
        raise Refused(f"the message has {len(body)} bytes; at most {MAX_BYTES} are read")
    try:
        document = json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refused(f"the message is not UTF-8: byte {error.start} is invalid") from error
    except (ValueError, RecursionError) as error:
        raise Refused(f"the message is not JSON: {error}"[:300]) from error
    if not isinstance(document, dict):
        raise Refused("the message is not a JSON object")
    if "event_type" in document:
        return _read_event(document, event_types)
    return _read_announcement(document)


def _read_event(document: Mapping[str, Any], event_types: frozenset[str]) -> Announced | None:
    """Return the dataset that an event of Rucio announces; None for other events and for blocks."""
    if str(document["event_type"]).lower() not in event_types:
        return None
    payload = document.get("payload")
    if not isinstance(payload, dict):
        raise Refused("payload: the event has no object with scope and name")
    scope, name = payload.get("scope"), payload.get("name")
    if not isinstance(scope, str) or not isinstance(name, str) or not scope or not name:
        raise Refused("payload: the event needs scope and name as texts")
    return None if "#" in name else Announced(uid=f"{scope}:{name}", name=name)


def _read_announcement(document: Mapping[str, Any]) -> Announced:
    if not document.keys() <= FIELDS:
        unknown = min(document.keys() - FIELDS)
        raise Refused(f"{unknown[:80]!r} is not a field of an announcement; use {', '.join(sorted(FIELDS))}")
    values = {key: value for key, value in document.items() if value is not None}
    values.setdefault("uid", values.pop("id", None))
    for key, value in values.items():
        if key in TEXTS and not isinstance(value, str):
            raise Refused(f"{key}: a text is needed")
    if "parameters" in values:
        try:
            check_size(values["parameters"])
        except InvalidInput as error:
            raise Refused(f"parameters: {next(iter(error.fields.values()), error)}"[:300]) from error
    return Announced(**{"name": "", **values})
