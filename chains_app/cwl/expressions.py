"""Expressions of templates: parameter references, comparisons, and, or, not, interpolation. No JavaScript.

`$(…)` in a text is an expression. A text that is one expression has the type of its value; otherwise values
are written into the text. `\\$(` is a literal `$(`. Operators follow JavaScript: `==` compares without
conversion, `||` and `&&` return an operand, and null, false, 0 and "" count as false.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wms2_project.errors import InvalidInput

ROOTS = ("inputs", "self", "runtime")
_LITERALS = {"null": None, "true": True, "false": False}
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<operator>===|!==|==|!=|<=|>=|&&|\|\||[<>!()\[\].])
    |(?P<word>\w+))""",
    re.VERBOSE,
)
_WORDS = {"and": "&&", "or": "||", "not": "!"}
_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_EQUAL = ("==", "===", "!=", "!==")
_MAX_DEPTH = 30
MAX_TEXT = 100_000  # characters that an expression may give: nested workflows multiply them


class ExpressionError(InvalidInput):
    """An expression that is not supported, or has no value. `offset` is its place in the text."""

    def __init__(self, message: str, *, offset: int = 0, cure: str = "") -> None:
        super().__init__(message, cure=cure)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Reference:
    """A parameter reference: a root and the keys and indices below it."""

    root: str
    segments: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, text, true, false or null."""

    value: Any


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator and its operands."""

    name: str
    operands: tuple[Node, ...]


Node = Reference | Literal | Operation


@lru_cache(maxsize=4096)
def parse_text(text: str) -> tuple[str | Node, ...]:
    """Return the literal parts and expressions of a text. Raise ExpressionError for anything else."""
    parts: list[str | Node] = []
    literal, position, text = "", 0, text.strip()
    while position < len(text):
        if text.startswith(("\\$(", "\\${"), position):
            literal += text[position + 1 : position + 3]
            position += 3
        elif text.startswith("\\\\", position):
            literal += "\\"
            position += 2
        elif text.startswith("${", position):
            raise ExpressionError(
                "JavaScript is not supported",
                offset=position,
                cure="Use $(…) with references, comparisons, and, or, not",
            )
        elif text.startswith("$(", position):
            parts += [literal] if literal else []
            node, position = _Parser(text, position + 2).whole()
            parts.append(node)
            literal = ""
        else:
            literal += text[position]
            position += 1
    return tuple(parts + ([literal] if literal else []))


def is_expression(text: object) -> bool:
    """Return whether a value is a text with an expression in it."""
    return isinstance(text, str) and ("$(" in text or "${" in text)


def evaluate(text: str, context: Mapping[str, Any]) -> Any:
    """Return the value of a text with `inputs`, `self` and `runtime` of the context."""
    if not is_expression(text):
        return text
    parts = parse_text(text)
    if len(parts) == 1 and not isinstance(parts[0], str):
        return _value(parts[0], context, strict=True)
    written, size = [], 0
    for part in parts:
        written.append(part if isinstance(part, str) else _written(_value(part, context, strict=True)))
        size += len(written[-1])
        if size > MAX_TEXT:
            raise ExpressionError(f"the text it gives is longer than {MAX_TEXT} characters")
    return "".join(written)


def evaluate_all(value: Any, context: Mapping[str, Any]) -> Any:
    """Return a JSON value with every text in it evaluated."""
    if isinstance(value, Mapping):
        return {key: evaluate_all(one, context) for key, one in value.items()}
    if isinstance(value, list):
        return [evaluate_all(one, context) for one in value]
    return evaluate(value, context) if is_expression(value) else value


def references(value: Any) -> set[Reference]:
    """Return the references in all texts of a JSON value."""
    if isinstance(value, Mapping):
        return {one for item in value.values() for one in references(item)}
    if isinstance(value, list):
        return {one for item in value for one in references(item)}
    if not is_expression(value):
        return set()
    return {one for part in parse_text(value) if not isinstance(part, str) for one in _references(part)}


def _references(node: Node) -> set[Reference]:
    if isinstance(node, Operation):
        return {one for operand in node.operands for one in _references(operand)}
    return {node} if isinstance(node, Reference) else set()


class _Parser:
    """Recursive descent over the tokens of one `$(…)`."""

    def __init__(self, text: str, start: int) -> None:
        self.text, self.position, self.depth = text, start, 0

    def whole(self) -> tuple[Node, int]:
        """Return the expression and the position after its closing parenthesis."""
        node = self._binary("||", lambda: self._binary("&&", self._not))
        self._expect(")")
        return node, self.position

    def _binary(self, name: str, operand: Callable[[], Node]) -> Node:
        node = operand()
        while self._peek() == name:
            self._next()
            node = Operation(name, (node, operand()))
        return node

    def _not(self) -> Node:
        if self._peek() == "!":
            self._next()
            return Operation("!", (self._nested(self._not),))
        left = self._operand()
        name = self._peek()
        if name in _EQUAL or name in _ORDERED:
            self._next()
            return Operation(name, (left, self._operand()))
        return left

    def _nested(self, inner: Callable[[], Node]) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self._refused("the expression is nested too deeply")
        node = inner()
        self.depth -= 1
        return node

    def _operand(self) -> Node:
        kind, value = self._next()
        if value == "(":
            node = self._nested(lambda: self._binary("||", lambda: self._binary("&&", self._not)))
            self._expect(")")
            return node
        if kind == "number":
            return Literal(json.loads(value))
        if kind == "string":
            return Literal(_unquoted(value))
        if kind == "word" and value in _LITERALS and self._peek() not in (".", "["):
            return Literal(_LITERALS[value])
        if kind == "word" and value in ROOTS:
            return Reference(value, tuple(self._segments()))
        raise self._refused(f"{value!r} is not supported here")

    def _segments(self) -> list[str | int]:
        found: list[str | int] = []
        while (mark := self._peek()) in (".", "["):
            self._next()
            kind, value = self._next(key=True)
            if mark == "." and (kind == "word" or value.isdigit()):
                found.append(value)
                continue
            if mark == "[" and (kind == "string" or value.isdigit()):
                found.append(_unquoted(value) if kind == "string" else int(value))
                self._expect("]")
                continue
            raise self._refused(f"{value!r} is not a key of a reference")
        return found

    def _peek(self) -> str:
        kept = self.position
        try:
            return self._next()[1]
        except ExpressionError:
            return ""
        finally:
            self.position = kept

    def _next(self, *, key: bool = False) -> tuple[str, str]:
        found = _TOKEN.match(self.text, self.position)
        if found is None:
            while self.text[self.position : self.position + 1].isspace():
                self.position += 1
            rest = self.text[self.position : self.position + 1]
            raise self._refused(f"{rest!r} is not supported" if rest else "the expression has no end")
        self.position = found.end()
        kind, value = str(found.lastgroup), str(found.group(found.lastgroup or 0))
        return (
            ("operator", _WORDS[value]) if kind == "word" and value in _WORDS and not key else (kind, value)
        )

    def _expect(self, value: str) -> None:
        kind, found = self._next()
        if found != value or kind == "string":
            raise self._refused(f"{found!r} is not supported here")

    def _refused(self, message: str) -> ExpressionError:
        cure = "Use references such as $(inputs.x), literals, comparisons, and, or, not"
        return ExpressionError(message, offset=self.position, cure=cure)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _value(node: Node, context: Mapping[str, Any], *, strict: bool) -> Any:
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Reference):
        return _resolve(node, context, strict=strict)
    name, first = node.name, _value(node.operands[0], context, strict=False)
    if name == "!":
        return not _truth(first)
    if name in ("&&", "||"):
        decided = _truth(first) == (name == "||")
        return first if decided else _value(node.operands[1], context, strict=False)
    second = _value(node.operands[1], context, strict=False)
    if name in _EQUAL:
        return _equal(first, second) == (name in ("==", "==="))
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (first, second))
    if not numbers and not (isinstance(first, str) and isinstance(second, str)):
        raise ExpressionError(f"{_short(first)} {name} {_short(second)} compares neither numbers nor texts")
    return _ORDERED[name](first, second)


def _resolve(reference: Reference, context: Mapping[str, Any], *, strict: bool) -> Any:
    value, path = context.get(reference.root), reference.root
    for number, segment in enumerate(reference.segments):
        last = number == len(reference.segments) - 1
        found, value = _below(value, segment, last=last)
        path += f"[{segment}]" if isinstance(segment, int) else f".{segment}"
        if not found and (strict or not last):
            raise ExpressionError(f"{path} does not exist")
    return value


def _below(value: Any, segment: str | int, *, last: bool) -> tuple[bool, Any]:
    """Return whether a value has this key or index, and what is there. Lists have a `length`."""
    if isinstance(value, Mapping):
        if segment in value:
            return True, value[segment]
        derived = _file_part(value, segment)
        return derived is not None, derived
    if isinstance(value, list):
        if isinstance(segment, int) and segment < len(value):
            return True, value[segment]
        if segment == "length" and last:
            return True, len(value)
    return False, None


def _file_part(value: Mapping[str, Any], segment: str | int) -> str | None:
    """Return the parts of a file's name that CWL derives from its location."""
    location = value.get("path") or value.get("location")
    if value.get("class") not in ("File", "Directory") or not isinstance(location, str):
        return None
    directory, _, base = location.rstrip("/").rpartition("/")
    root, dot, extension = base.rpartition(".")
    parts = {"path": location, "dirname": directory, "basename": base}
    if value["class"] == "File":
        parts |= {"nameroot": root if root else base, "nameext": dot + extension if root else ""}
    return parts.get(str(segment))


def _truth(value: Any) -> bool:
    return isinstance(value, list | Mapping) or bool(value)


def _equal(first: Any, second: Any) -> bool:
    comparable = type(first) is type(second) or (_number(first) and _number(second))
    return bool(comparable and first == second)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _short(value: Any) -> str:
    return json.dumps(value, default=str)[:40]
