"""JSON files that may be missing, cut off, hostile or wrong: read with a size cap and field by field.

Every refusal is a ManifestError that names the file, the field and what was expected there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from sandbox import names
from sandbox.atomic import replacing
from sandbox.lumis import Lumis

MAX_BYTES = 64 * 1024 * 1024
MAX_INTEGER = 2**63 - 1
MAX_LUMI = 2**32 - 1
MAX_TEXT = 4000
SCHEMA = 1
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


class ManifestError(Exception):
    """A JSON document between WMS2 and its jobs is not usable; the message says which and why."""


class ManifestMissing(ManifestError):
    """The document does not exist."""


class ManifestUnreadable(ManifestError):
    """The disk does not give the document out, which says nothing about the document."""


def read_json(path: Path) -> object:
    """Parse a JSON file of bounded size; NaN and infinities are refused."""
    try:
        with open(path, "rb") as handle:
            data = handle.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ManifestMissing(f"{path.name}: there is no such file") from None
    except OSError as error:
        raise ManifestUnreadable(f"{path.name}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise ManifestError(f"{path.name}: larger than {MAX_BYTES >> 20} MB")
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path.name}: not a JSON document: {str(error)[:200]}") from error


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write atomically, the same bytes for the same document."""
    data = json.dumps(document, sort_keys=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    with replacing(path) as handle:
        handle.write(data + b"\n")


def clean_text(text: str, limit: int = MAX_TEXT) -> str:
    """The text without characters a database or a terminal would choke on, cut to `limit`."""
    return _UNPRINTABLE.sub("?", text[:limit])


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


class Fields:
    """One JSON object being read; knows where it stands, so that a refusal can say it."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise ManifestError(f"{where}: expected an object, found {_shown(value)}")
        self.raw: dict[str, Any] = value
        self.where = where

    @classmethod
    def of_file(cls, path: Path) -> Fields:
        """The document of a file, which must be of the schema this code knows."""
        fields = cls(read_json(path), path.name)
        fields.integer("schema", minimum=SCHEMA, maximum=SCHEMA)
        return fields

    def refuse(self, key: str, expected: str) -> NoReturn:
        """Raise the error of a field that is not as expected."""
        found = _shown(self.raw[key]) if key in self.raw else "nothing"
        raise ManifestError(f"{self.where}: {key}: expected {expected}, found {found}")

    def name(self, key: str, pattern: re.Pattern[str], kind: str, *, empty: bool = False) -> str:
        value = self.raw.get(key)
        if not (empty and value == "") and not names.matches(pattern, value):
            self.refuse(key, kind)
        return str(value)

    def text(self, key: str, *, limit: int = MAX_TEXT) -> str:
        value = self.raw.get(key)
        if not isinstance(value, str):
            self.refuse(key, "a string")
        return clean_text(value, limit)

    def text_or_empty(self, key: str) -> str:
        """'' where the field is missing or null."""
        return "" if self.raw.get(key) is None else self.text(key)

    def flag(self, key: str) -> bool:
        value = self.raw.get(key)
        if not isinstance(value, bool):
            self.refuse(key, "true or false")
        return value

    def integer(self, key: str, *, minimum: int = 0, maximum: int = MAX_INTEGER) -> int:
        value = self.raw.get(key)
        if type(value) is not int or not minimum <= value <= maximum:
            self.refuse(key, f"a whole number from {minimum} to {maximum}")
        return value

    def number(self, key: str) -> float:
        value = self.raw.get(key)
        # NaN fails every comparison, so the range check refuses it too.
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_INTEGER:
            self.refuse(key, "a finite number not below zero")
        return float(value)

    def child(self, key: str) -> Fields:
        return Fields(self.raw.get(key), f"{self.where}: {key}")

    def optional(self, key: str) -> Fields | None:
        return None if self.raw.get(key) is None else self.child(key)

    def children(self, key: str) -> list[Fields]:
        return [Fields(value, f"{self.where}: {key}[{n}]") for n, value in enumerate(self._list(key))]

    def members(self, key: str) -> Iterator[tuple[str, Fields]]:
        inner = self.child(key)
        for name in inner.raw:
            yield name, inner.child(name)

    def name_list(self, key: str, pattern: re.Pattern[str], kind: str) -> tuple[str, ...]:
        values = self._list(key)
        if not all(names.matches(pattern, value) for value in values):
            self.refuse(key, f"a list of {kind}s")
        return tuple(values)

    def lumis(self, key: str, *, counted: bool = False) -> Lumis:
        """{"run": [[first, last], …]} with whole numbers; counted ones have a third, the events in each."""
        found: Lumis = {}
        size = 3 if counted else 2
        for run, ranges in self.child(key).raw.items():
            if not (run.isascii() and run.isdigit() and len(run) <= 10 and isinstance(ranges, list)):
                self.refuse(key, '{"run": [[first, last], …]}')
            for pair in ranges:
                if not (isinstance(pair, list) and len(pair) == size and all(type(n) is int for n in pair)):
                    self.refuse(key, f"pairs of whole numbers for run {run}")
                if not 0 <= pair[0] <= pair[1] <= MAX_LUMI or min(pair) < 0:
                    self.refuse(key, f"ranges first <= last for run {run}")
            found[int(run)] = [list(pair) for pair in ranges]
        return found

    def _list(self, key: str) -> list[Any]:
        value = self.raw.get(key)
        if not isinstance(value, list):
            self.refuse(key, "a list")
        return value


def _shown(value: object) -> str:
    return clean_text(repr(value), 80)
