"""YAML documents with line and column of every value.

Documents that are expensive to read are refused first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from chains_app.cwl.types import Problem

MAX_BYTES = 256 * 1024
MAX_ALIASES = 200
MAX_VALUES = 20_000
MAX_DEPTH = 60
Path = tuple[str | int, ...]
_TAG = "tag:yaml.org,2002:"
_KNOWN = frozenset(_TAG + one for one in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp"))


class Unreadable(Exception):
    """Error: the document is not usable YAML."""

    def __init__(self, message: str, *, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.problem = Problem(message, line, column)


@dataclass(slots=True)
class Document:
    """A value with the place of each part of it, by path."""

    value: Any
    places: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def problem(self, path: Path, message: str, *, cure: str = "", offset: int = 0) -> Problem:
        """Return a problem at the place of this path, or of the nearest one above it."""
        while path and path not in self.places:
            path = path[:-1]
        line, column = self.places.get(path, (1, 1))
        return Problem(message, line, column + offset, cure=cure)

    def unreadable(self, path: Path, message: str) -> Unreadable:
        """Return the error of a document that must not be read further, with the place of this path."""
        place = self.problem(path, message)
        return Unreadable(message, line=place.line, column=place.column)


def load_document(text: str) -> Document:
    """Return the document. Raise Unreadable for illegal YAML, and for aliases that multiply."""
    if len(text.encode()) > MAX_BYTES:
        raise Unreadable(f"the document has more than {MAX_BYTES // 1024} kB")
    try:
        _check_events(text)
        node = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = {"line": mark.line + 1, "column": mark.column + 1} if mark else {}
        raise Unreadable(f"not legal YAML: {error.problem or error.context}", **place) from error
    except (YAMLError, ValueError, RecursionError) as error:
        raise Unreadable(f"not legal YAML: {str(error)[:200]}") from error
    if node is None:
        raise Unreadable("the document is empty")
    document = Document(None)
    document.value = _Reader(document.places).value(node, (), frozenset())
    return document


def _check_events(text: str) -> None:
    """Raise Unreadable for too many aliases or too deep nesting, before anything is built."""
    aliases = depth = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        kind = type(event).__name__
        mark = event.start_mark
        aliases += kind == "AliasEvent"
        depth += (kind in ("MappingStartEvent", "SequenceStartEvent")) - (
            kind in ("MappingEndEvent", "SequenceEndEvent")
        )
        if aliases > MAX_ALIASES or depth > MAX_DEPTH:
            what = f"more than {MAX_ALIASES} aliases" if aliases > MAX_ALIASES else "nested too deeply"
            raise Unreadable(f"the document is refused: {what}", line=mark.line + 1, column=mark.column + 1)


class _Reader:
    def __init__(self, places: dict[Path, tuple[int, int]]) -> None:
        self.places, self.values = places, 0

    def value(self, node: Node, path: Path, above: frozenset[int]) -> Any:
        mark = node.start_mark
        line, column = mark.line + 1, mark.column + 1
        self.places[path] = (line, column)
        self.values += 1
        if self.values > MAX_VALUES:
            raise Unreadable(f"the document has more than {MAX_VALUES} values", line=line, column=column)
        if str(node.tag) not in _KNOWN:
            raise Unreadable(f"the tag {str(node.tag)[:80]} is not supported", line=line, column=column)
        if id(node) in above:
            raise Unreadable("an alias contains itself", line=line, column=column)
        inner = above | {id(node)}
        if isinstance(node, MappingNode):
            return self._mapping(node, path, inner)
        if isinstance(node, SequenceNode):
            return [self.value(one, (*path, number), inner) for number, one in enumerate(node.value)]
        return _scalar(node)

    def _mapping(self, node: MappingNode, path: Path, above: frozenset[int]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            mark = key_node.start_mark
            place = {"line": mark.line + 1, "column": mark.column + 1}
            if not isinstance(key_node, ScalarNode):
                raise Unreadable("a key must be a text", **place)
            key = str(key_node.value)
            if key in found:
                raise Unreadable(f"the key {key!r} is given twice", **place)
            found[key] = self.value(value_node, (*path, key), above)
            if isinstance(value_node, MappingNode | SequenceNode):
                self.places[(*path, key)] = (mark.line + 1, mark.column + 1)
        return found


def _scalar(node: Node) -> Any:
    kind, text = str(node.tag).removeprefix(_TAG), str(node.value)
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        return int(text.replace("_", ""), 0 if text.lstrip("+-").startswith(("0x", "0o", "0b")) else 10)
    if kind == "float":
        return float(text.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    return text
