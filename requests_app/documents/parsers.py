"""Parsers of single values: each returns the typed value, or raises Refused with the fault and the cure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlsplit

from requests_app.documents.problems import shown
from requests_app.documents.spec import LumiMask
from wms2_project.errors import InvalidInput
from wms2_project.grammar import MAX_LENGTH, Name, check

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
Parse = Callable[[object], T]

MAX_RUN = 2**31 - 1
MAX_LUMI = 2**32 - 1
MAX_LIST = 10_000
MAX_URL = 500


class Refused(Exception):
    """The value cannot be accepted; the message says why and what to write instead."""


def whole(low: int, high: int, unit: str = "") -> Parse[int]:
    """A whole number; 5950.0 passes as 5950, true and "5" do not."""
    wanted = f"give a whole number{' of ' + unit if unit else ''} from {low} to {high}"

    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refused(f"{shown(value)} is not a number; {wanted}")
        if isinstance(value, float) and not value.is_integer():
            raise Refused(f"{shown(value)} is not a whole number; {wanted}")
        if not low <= value <= high:
            raise Refused(f"{shown(value)} is out of range; {wanted}")
        return int(value)

    return parse


def positive(high: float, unit: str = "") -> Parse[float]:
    """A number above zero, at most `high`."""
    wanted = f"give a number{' of ' + unit if unit else ''} above 0, at most {high:g}"

    def parse(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refused(f"{shown(value)} is not a number; {wanted}")
        if not 0 < value <= high:
            raise Refused(f"{shown(value)} is out of range; {wanted}")
        return float(value)

    return parse


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Refused(f"{shown(value)} is not a truth value; write true or false, without quotes")
    return value


def named(kind: Name, longest: int = MAX_LENGTH) -> Parse[str]:
    """A name of the shared grammar, at most so long."""

    def parse(value: object) -> str:
        if not isinstance(value, str):
            raise Refused(f"{shown(value)} is not text; give a {kind.value} as text")
        if len(value) > longest:
            raise Refused(f"{shown(value)} is too long; use at most {longest} characters")
        try:
            return check(kind, value, field="value")
        except InvalidInput as error:
            raise Refused(error.fields["value"]) from None

    return parse


def text(pattern: str, expected: str) -> Parse[str]:
    """Text of a stricter or other grammar than the shared names have."""
    compiled = re.compile(pattern, re.ASCII)

    def parse(value: object) -> str:
        if not isinstance(value, str) or compiled.fullmatch(value) is None or ".." in value:
            raise Refused(f"{shown(value)} is not accepted; use {expected}")
        return value

    return parse


def choice(kind: type[E]) -> Parse[E]:
    def parse(value: object) -> E:
        if isinstance(value, str) and value in list(kind):
            return kind(value)
        legal = ", ".join(kind)
        raise Refused(f"{shown(value)} is unknown; use one of {legal}")

    return parse


def limits(highest: Mapping[str, int]) -> Parse[dict[str, int]]:
    """{name: number}: a whole number from 1 up for some of these names, each with its own highest."""

    def parse(value: object) -> dict[str, int]:
        if not isinstance(value, Mapping):
            raise Refused(f"{shown(value)} is not an object; write {{name: number}}")
        for name in value:
            if name not in highest:
                raise Refused(f"{shown(name)} is unknown; use {', '.join(highest)}")
        parsed = {}
        for name, number in value.items():
            try:
                parsed[name] = whole(1, highest[name])(number)
            except Refused as refused:
                raise Refused(f"{name}: {refused}") from None
        return parsed

    return parse


def several(parse_one: Parse[T], limit: int = MAX_LIST) -> Parse[tuple[T, ...]]:
    """One value or a list of them; repeated ones are dropped, the order stays."""

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

    return parse


def first_of(parse_one: Parse[T]) -> Parse[T]:
    """One value or a list of alternatives, of which the first is taken."""
    parse_all = several(parse_one, 100)
    return lambda value: parse_all(value)[0]


def runs(value: object) -> tuple[int, ...]:
    return tuple(sorted(several(whole(1, MAX_RUN), 100_000)(value)))


def secure_url(value: object) -> str:
    """An https URL without credentials; which hosts are trusted is the caller's business."""
    wanted = "give an https:// address without user name or password, of plain URL characters"
    if not isinstance(value, str) or len(value) > MAX_URL:
        raise Refused(f"{shown(value)} is not an address; {wanted}")
    if re.fullmatch(r"[A-Za-z0-9:/?&=%.,_~+@-]+", value, re.ASCII) is None:
        raise Refused(f"the address holds characters that are not accepted; {wanted}")
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise Refused(f"the address cannot be read; {wanted}") from None
    if parts.scheme != "https" or not host or "@" in parts.netloc:
        raise Refused(f"the address is not accepted; {wanted}")
    return value


def lumi_mask(value: object) -> LumiMask:
    """{"run": [[first, last], …]}; ranges come out sorted, joined where they touch."""
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
