"""Types of CWL ports in normal form: a list of names, see `chains_app.cwl.types`."""

from __future__ import annotations

from typing import Any

from chains_app.cwl.types import ANY, NULL

PRIMITIVES = frozenset(
    {NULL, "boolean", "int", "long", "float", "double", "string", "File", "Directory", ANY}
)
STREAMS = frozenset({"stdin", "stdout", "stderr"})


class UnknownType(ValueError):
    """A type that is not described in the document."""


def read_types(raw: Any) -> tuple[str, ...]:
    """Return the names of a type. Raise UnknownType for references to other types."""
    if isinstance(raw, list):
        return tuple(dict.fromkeys(name for one in raw for name in read_types(one)))
    if isinstance(raw, str):
        return _short_form(raw)
    if isinstance(raw, dict):
        return _schema(raw)
    raise UnknownType(f"{raw!r} is no type")


def _short_form(raw: str) -> tuple[str, ...]:
    if raw.endswith("?"):
        return tuple(dict.fromkeys((NULL, *_short_form(raw[:-1]))))
    if raw.endswith("[]"):
        return (_array(_short_form(raw[:-2])),)
    if raw in PRIMITIVES:
        return (raw,)
    if raw in STREAMS:
        return ("File",)
    raise UnknownType(f"{raw!r} is no type")


def _schema(raw: dict[str, Any]) -> tuple[str, ...]:
    kind = raw.get("type")
    if kind == "array":
        return (_array(read_types(raw.get("items"))),)
    if kind == "enum":
        symbols = raw.get("symbols") or []
        return ("enum:" + ",".join(str(one).rpartition("/")[2].rpartition("#")[2] for one in symbols),)
    if kind == "record":
        return ("record",)
    return read_types(kind)


def _array(items: tuple[str, ...]) -> str:
    return f"{items[0]}[]" if len(items) == 1 else f"({'|'.join(items)})[]"
