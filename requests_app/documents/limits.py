"""Checks of documents before anything reads them: size, depth, and values that JSON cannot represent.

Documents that pass can be stored as PostgreSQL `jsonb` and walked recursively.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping

from requests_app.documents.problems import Problems, key_shown, refuse

MAX_DEPTH = 32
MAX_VALUES = 200_000
MAX_CHARACTERS = 1_000_000
MAX_WHOLE = 2**63
MAX_PAYLOAD_BYTES = 100_000  # sent to every job; the largest documents of ReqMgr2 need a fifth of it

_Item = tuple[str, int, object]


def check_size(raw: object) -> None:
    """Raise InvalidInput unless the value is plain, finite JSON within the limits."""
    problems = Problems()
    inspect(raw, problems)
    problems.raise_if_any()


def check_payload_size(payload: Mapping[str, object], problems: Problems) -> None:
    """Report a payload configuration that is too large to be sent to every job."""
    size = len(json.dumps(payload, default=str).encode())
    if size > MAX_PAYLOAD_BYTES:
        problems.add(
            "payload_config",
            f"is {size} bytes of JSON with the fields passed on to the payload, above the limit of"
            f" {MAX_PAYLOAD_BYTES}; shorten it, or have the payload fetch its data by itself",
        )


def inspect(raw: object, problems: Problems) -> None:
    """Report values that JSON cannot represent; raise InvalidInput at once if the document is too large."""
    values = characters = 0
    todo: list[_Item] = [("", 0, raw)]
    while todo:
        path, depth, value = todo.pop()
        values += 1
        if isinstance(value, Mapping | list | tuple):
            if depth >= MAX_DEPTH:
                raise refuse(_where(path), f"is nested deeper than {MAX_DEPTH} levels; flatten it")
            if values + len(todo) + len(value) > MAX_VALUES:
                raise refuse(_where(path), f"brings the document above {MAX_VALUES} values; shorten it")
            todo.extend(_children(path, depth, value))
            value = "".join(value) if isinstance(value, Mapping) else ""
        if isinstance(value, str):
            characters += len(value)
        if characters > MAX_CHARACTERS:
            raise refuse("document", f"has more than {MAX_CHARACTERS} characters of text; shorten it")
        fault = _fault(value)
        if fault:
            problems.add(_where(path), fault)


def _children(
    path: str, depth: int, value: Mapping[object, object] | list[object] | tuple[object, ...]
) -> Iterator[_Item]:
    if not isinstance(value, Mapping):
        for index, child in enumerate(value):
            yield f"{path}[{index}]", depth + 1, child
        return
    for key, child in value.items():
        if not isinstance(key, str):
            raise refuse(_where(path), "has a field name that is not text; use text names")
        yield (f"{path}.{key_shown(key)}" if path else key_shown(key)), depth + 1, child


def _fault(value: object) -> str:
    if isinstance(value, str):
        if "\0" in value:
            return "contains a NUL character; remove it"
        return "" if _is_unicode(value) else "contains invalid Unicode (a lone surrogate); remove it"
    if value is None:
        return ""
    if isinstance(value, int):
        return "" if abs(value) < MAX_WHOLE else "is a number beyond 64 bits; use a smaller one"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "is not a finite number; use an ordinary number"
    return f"has a type that JSON does not have ({type(value).__name__}); use plain JSON"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _where(path: str) -> str:
    return path[:300] or "document"
