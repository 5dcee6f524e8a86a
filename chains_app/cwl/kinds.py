"""Types of CWL ports in normal form: a list of names, see `chains_app.cwl.types`."""

from __future__ import annotations

from typing import Any

from chains_app.cwl.types import ANY, NULL, array_of

PRIMITIVES = frozenset(
    {NULL, "boolean", "int", "long", "float", "double", "string", "File", "Directory", ANY}
)
STREAMS = frozenset({"stdin", "stdout", "stderr"})
MAX_NESTING = 10  # the time cwltool takes doubles with every level


class UnknownType(ValueError):
    """A type that is not described in the document."""


class TooDeep(UnknownType):
    """A type that is nested so deeply that checking it would take too long."""


def read_types(raw: Any, *, nesting: int = 0) -> tuple[str, ...]:
    """Return the names of a type. Raise UnknownType for references to other types."""
    if nesting > MAX_NESTING:
        raise TooDeep(f"the type is nested more than {MAX_NESTING} times")
    if isinstance(raw, list):
        return tuple(dict.fromkeys(name for one in raw for name in read_types(one, nesting=nesting + 1)))
    if isinstance(raw, str):
        return _short_form(raw, nesting)
    if isinstance(raw, dict):
        return _schema(raw, nesting)
    raise UnknownType(f"{raw!r} is not a type")


def _short_form(raw: str, nesting: int) -> tuple[str, ...]:
    if raw.count("[]") + raw.count("?") + nesting > MAX_NESTING:
        raise TooDeep(f"the type is nested more than {MAX_NESTING} times")
    if raw.endswith("?"):
        return tuple(dict.fromkeys((NULL, *_short_form(raw[:-1], nesting))))
    if raw.endswith("[]"):
        return (array_of(_short_form(raw[:-2], nesting)),)
    if raw in PRIMITIVES:
        return (raw,)
    if raw in STREAMS:
        return ("File",)
    raise UnknownType(f"{raw!r} is not a type")


def _schema(raw: dict[str, Any], nesting: int) -> tuple[str, ...]:
    kind = raw.get("type")
    if kind == "array":
        return (array_of(read_types(raw.get("items"), nesting=nesting + 1)),)
    if kind == "enum":
        symbols = raw.get("symbols") or []
        return ("enum:" + ",".join(str(one).rpartition("/")[2].rpartition("#")[2] for one in symbols),)
    if kind == "record":
        return ("record",)
    return read_types(kind, nesting=nesting + 1)
