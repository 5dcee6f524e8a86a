"""Kinds of values. Each parses one value or raises Refused with the error and its cure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from requests_app.documents.problems import shown
from requests_app.documents.spec import LumiMask
from wms2_project.errors import InvalidInput
from wms2_project.grammar import MAX_LENGTH, Name, check, described

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

MAX_RUN = 2**31 - 1
MAX_LUMI = 2**32 - 1
MAX_LIST = 10_000
MAX_URL = 500


class Refused(Exception):
    """The value is not accepted; the message says why and what to write instead."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of value: its parser and its limits as JSON Schema (OpenAPI 3.0)."""

    parse: Callable[[object], T]
    schema: Mapping[str, Any]
    entry: Kind[Any] | None = None  # kind of the entries of a list
    expected: str = ""  # grammar of a text, in words

    def __call__(self, value: object) -> T:
        """Return the typed value; raise Refused if it is not accepted."""
        return self.parse(value)


def whole(low: int, high: int, unit: str = "") -> Kind[int]:
    """Return the kind of whole numbers. 5950.0 is accepted as 5950; true and "5" are not."""
    wanted = f"give a whole number{' of ' + unit if unit else ''} from {low} to {high}"

    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refused(f"{shown(value)} is not a number; {wanted}")
        if isinstance(value, float) and not value.is_integer():
            raise Refused(f"{shown(value)} is not a whole number; {wanted}")
        if not low <= value <= high:
            raise Refused(f"{shown(value)} is out of range; {wanted}")
        return int(value)

    return Kind(parse, {"type": "integer", "minimum": low, "maximum": high})


def positive(high: float, unit: str = "") -> Kind[float]:
    """Return the kind of numbers above zero, at most `high`."""
    wanted = f"give a number{' of ' + unit if unit else ''} above 0, at most {high:g}"

    def parse(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refused(f"{shown(value)} is not a number; {wanted}")
        if not 0 < value <= high:
            raise Refused(f"{shown(value)} is out of range; {wanted}")
        return float(value)

    return Kind(parse, {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": high})


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Refused(f"{shown(value)} is not a boolean; write true or false, without quotes")
    return value


def named(kind: Name, longest: int = MAX_LENGTH) -> Kind[str]:
    """Return the kind of names of the shared grammar, at most `longest` characters."""

    def parse(value: object) -> str:
        if not isinstance(value, str):
            raise Refused(f"{shown(value)} is not text; give a {kind.value} as text")
        if len(value) > longest:
            raise Refused(f"{shown(value)} is too long; use at most {longest} characters")
        try:
            return check(kind, value, field="value")
        except InvalidInput as error:
            raise Refused(error.fields["value"]) from None

    pattern, expected = described(kind)
    schema = {"type": "string", "pattern": f"^{pattern}$", "maxLength": longest}
    return Kind(parse, schema, expected=expected)


def text(pattern: str, expected: str) -> Kind[str]:
    """Return the kind of text that matches the pattern; `expected` describes it."""
    compiled = re.compile(pattern, re.ASCII)

    def parse(value: object) -> str:
        if not isinstance(value, str) or compiled.fullmatch(value) is None or ".." in value:
            raise Refused(f"{shown(value)} is not accepted; use {expected}")
        return value

    return Kind(parse, {"type": "string", "pattern": f"^{pattern}$"}, expected=expected)


def choice(kind: type[E]) -> Kind[E]:
    def parse(value: object) -> E:
        if isinstance(value, str) and value in list(kind):
            return kind(value)
        legal = f"{'one of ' if len(kind) > 1 else ''}{', '.join(kind)}"
        raise Refused(f"{shown(value)} is unknown; use {legal}")

    return Kind(parse, {"type": "string", "enum": list(kind)})


def limits(highest: Mapping[str, int]) -> Kind[dict[str, int]]:
    """Return the kind of {name: number} with whole numbers from 1 to each name's highest."""
    kinds = {name: whole(1, most) for name, most in highest.items()}

    def parse(value: object) -> dict[str, int]:
        if not isinstance(value, Mapping):
            raise Refused(f"{shown(value)} is not an object; write {{name: number}}")
        parsed = {}
        for name, number in value.items():
            if name not in kinds:
                raise Refused(f"{shown(name)} is unknown; use {', '.join(kinds)}")
            try:
                parsed[name] = kinds[name](number)
            except Refused as refused:
                raise Refused(f"{name}: {refused}") from None
        return parsed

    each = {name: kind.schema for name, kind in kinds.items()}
    return Kind(parse, {"type": "object", "properties": each, "additionalProperties": False})


def several(parse_one: Kind[T], limit: int = MAX_LIST) -> Kind[tuple[T, ...]]:
    """Return the kind of lists; a single value is a list of one. Duplicates are dropped."""

    def parse(value: object) -> tuple[T, ...]:
        entries = value if isinstance(value, list) else [value]
        if len(entries) > limit:
            raise Refused(f"{len(entries)} entries are too many; give at most {limit}")
        parsed: dict[T, None] = {}
        for index, entry in enumerate(entries):
            try:
                parsed[parse_one(entry)] = None
            except Refused as refused:
                raise Refused(f"entry {index + 1}: {refused}") from None
        return tuple(parsed)

    return Kind(parse, {"type": "array", "items": parse_one.schema, "maxItems": limit}, parse_one)


def first_of(parse_one: Kind[T]) -> Kind[T]:
    """Return the kind that accepts a value or a list of alternatives and takes the first."""
    parse_all = several(parse_one, 100)
    return Kind(lambda value: parse_all(value)[0], parse_one.schema, expected=parse_one.expected)


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise Refused(f"{shown(value)} is not an object; write {{name: value}}")
    return dict(value)


def _lfn_base(value: object) -> str:
    return _base(value.rstrip("/") if isinstance(value, str) else value)


def _secure_url(value: object) -> str:
    """Parse an https URL without credentials. The caller checks whether its host is trusted."""
    wanted = "give an https:// address without user name or password, of plain URL characters"
    if not isinstance(value, str) or len(value) > MAX_URL:
        raise Refused(f"{shown(value)} is not an address; {wanted}")
    if re.fullmatch(r"[A-Za-z0-9:/?&=%.,_~+@-]+", value, re.ASCII) is None:
        raise Refused(f"the address contains characters that are not accepted; {wanted}")
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise Refused(f"the address cannot be parsed; {wanted}") from None
    if parts.scheme != "https" or not host or "@" in parts.netloc:
        raise Refused(f"the address is not accepted; {wanted}")
    return value


def _lumi_mask(value: object) -> LumiMask:
    """Parse {"run": [[first, last], …]}; ranges are sorted, and joined where they touch."""
    if not isinstance(value, Mapping):
        raise Refused(f'{shown(value)} is not a lumi mask; write {{"run": [[first, last], …]}}')
    mask: dict[int, tuple[tuple[int, int], ...]] = {}
    for key, ranges in value.items():
        if re.fullmatch(r"[1-9][0-9]{0,9}", key, re.ASCII) is None or int(key) > MAX_RUN:
            raise Refused(f"{shown(key)} is not a run number; name each run by its number")
        if not isinstance(ranges, list) or not ranges:
            raise Refused(f"run {key} has no lumi ranges; write [[first, last], …] or leave the run out")
        mask[int(key)] = _joined([_lumi_range(key, pair) for pair in ranges])
    return dict(sorted(mask.items()))


def _lumi_range(run: str, pair: object) -> tuple[int, int]:
    lumi = whole(1, MAX_LUMI)
    if not isinstance(pair, list) or len(pair) != 2:
        raise Refused(f"run {run}: {shown(pair)} is not a range; write [first, last]")
    try:
        first, last = lumi(pair[0]), lumi(pair[1])
    except Refused as refused:
        raise Refused(f"run {run}: {refused}") from None
    if first > last:
        raise Refused(f"run {run}: range [{first}, {last}] is backwards; write the smaller lumi first")
    return first, last


def _joined(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def _moment(value: object) -> str:
    """Return a time as ISO 8601 text in UTC."""
    if not isinstance(value, str):
        raise Refused(f"{shown(value)} is not a text; write a time such as 2031-05-01T12:00:00Z")
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        raise Refused(f"{shown(value)} is not a time; write one such as 2031-05-01T12:00:00Z") from None
    if parsed.tzinfo is None:
        raise Refused(f"{shown(value)} has no time zone; write a time such as 2031-05-01T12:00:00Z")
    return parsed.astimezone(UTC).isoformat()


moment = Kind(
    _moment, {"type": "string", "format": "date-time"}, expected="a time such as 2031-05-01T12:00:00Z"
)
_runs = several(whole(1, MAX_RUN), 100_000)
flag = Kind(_flag, {"type": "boolean"})
mapping = Kind(_mapping, {"type": "object"})
runs = Kind(lambda value: tuple(sorted(_runs(value))), _runs.schema, _runs.entry)
lumi_mask = Kind(_lumi_mask, {"type": "object"})
_base = named(Name.LFN_BASE)
lfn_base = Kind(_lfn_base, _base.schema, expected=_base.expected)
_url = {"type": "string", "format": "uri", "maxLength": MAX_URL}
secure_url = Kind(_secure_url, _url, expected="an https:// address without user name or password")
