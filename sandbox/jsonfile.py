"""Reader of untrusted JSON files: missing, truncated, hostile or wrong; with limits, field by field.

Every refusal is a ManifestError that names the file, the field and what was expected. A file written by a
job is a claim: it must be a regular file, small and flat before it is parsed, and short in every list
afterwards. The limits of claims are declared here.
"""

from __future__ import annotations

import errno
import json
import os
import re
import reprlib
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from sandbox import names
from sandbox.atomic import replacing
from sandbox.lumis import LumiEvents, Lumis, union
from sandbox.values import MAX_INTEGER, MAX_NUMBER, is_number, is_whole

MAX_OWN_BYTES = 64 * 1024 * 1024  # of files written by WMS2
MAX_CLAIM_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 16
MAX_CONTAINERS = 100_000  # lists and objects of one claim
MAX_VALUES = 400_000
MAX_LISTED = 20_000  # entries of one list: inputs, outputs, parents
MAX_RANGES = 20_000  # of lumis, in one file
MAX_LUMIS = 100_000  # in one file: DBS needs each of them
MAX_MEGABYTES = 10**9
MAX_FILE_BYTES = 10**15
MAX_LUMI = 2**32 - 1
MAX_TEXT = 4000
SCHEMA = 1
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_SHORT = reprlib.Repr()  # bounds the length
_SHORT.maxstring = 80
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_RUN = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)  # one spelling for each number
_ENDLESS_NUMBER = re.compile(rb"[0-9]{100}")


class ManifestError(Exception):
    """A JSON document exchanged between WMS2 and its jobs is not usable; the message says why."""


class ManifestMissing(ManifestError):
    """The document does not exist."""


class ManifestUnreadable(ManifestError):
    """The document cannot be read from the disk; nothing is known about its content."""


class ClaimRefused(ManifestError):
    """The document exceeds a limit, has another schema, or reports what was not planned or is not true.

    A missing or truncated document is not refused: a killed job leaves such documents.
    """


def read_json(path: Path, *, claim: bool = False) -> object:
    """Parse a JSON file of bounded size; refuse NaN and infinities. `claim`: a job wrote it."""
    most = MAX_CLAIM_BYTES if claim else MAX_OWN_BYTES
    try:
        with open_regular(path) if claim else open(path, "rb") as handle:
            large = os.fstat(handle.fileno()).st_size > most
            data = b"" if large else handle.read(most + 1)
    except FileNotFoundError:
        raise ManifestMissing(f"{path.name}: there is no such file") from None
    except OSError as error:
        raise ManifestUnreadable(f"{path.name}: cannot be read: {error.strerror}") from error
    if large or len(data) > most:
        raise ClaimRefused(f"{path.name}: larger than {most >> 20} MB")
    if claim:
        _check_shape(data, path.name)
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path.name}: not a JSON document: {str(error)[:200]}") from error


def open_regular(path: Path) -> BinaryIO:
    """Open a job's file without following links or waiting for pipes; raise ClaimRefused unless a file."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise ClaimRefused(f"{path.name}: cannot be read: not a regular file") from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise ClaimRefused(f"{path.name}: cannot be read: not a regular file")
    return os.fdopen(number, "rb")


def _check_shape(data: bytes, name: str) -> None:
    """Refuse documents that take much more memory parsed than as bytes; strings are ignored."""
    outside = b"".join(data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    brackets = outside.translate(None, _NOT_BRACKETS)
    if len(brackets) > 2 * MAX_CONTAINERS:
        raise ClaimRefused(f"{name}: more than {MAX_CONTAINERS} lists and objects")
    if outside.count(b",") + outside.count(b":") > MAX_VALUES:
        raise ClaimRefused(f"{name}: more than {MAX_VALUES} values")
    if _ENDLESS_NUMBER.search(outside):
        raise ClaimRefused(f"{name}: a number of more than 100 digits")
    depth = 0
    for bracket in brackets:
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise ClaimRefused(f"{name}: more than {MAX_DEPTH} levels")


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write atomically; equal documents give equal bytes."""
    data = json.dumps(document, sort_keys=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    with replacing(path) as handle:
        handle.write(data + b"\n")


def clean_text(text: str, limit: int = MAX_TEXT) -> str:
    """Return the text without control characters, cut to `limit`."""
    return _UNPRINTABLE.sub("?", text[:limit])


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number")


class Fields:
    """A JSON object that is being read, with its location for error messages."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise ClaimRefused(f"{where}: expected an object, found {_shown(value)}")
        self.raw: dict[str, Any] = value
        self.where = where

    @classmethod
    def of_file(cls, path: Path, *, claim: bool = False) -> Fields:
        """Read the document of a file, which must have the known schema."""
        fields = cls(read_json(path, claim=claim), path.name)
        fields.integer("schema", minimum=SCHEMA, maximum=SCHEMA)
        return fields

    def refuse(self, key: str, expected: str) -> NoReturn:
        """Raise ClaimRefused for a field that is not as expected."""
        found = _shown(self.raw[key]) if key in self.raw else "nothing"
        raise ClaimRefused(f"{self.where}: {key}: expected {expected}, found {found}")

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
        """Return the text; '' if the field is missing or null."""
        return "" if self.raw.get(key) is None else self.text(key)

    def flag(self, key: str) -> bool:
        value = self.raw.get(key)
        if not isinstance(value, bool):
            self.refuse(key, "true or false")
        return value

    def integer(self, key: str, *, minimum: int = 0, maximum: int = MAX_INTEGER) -> int:
        value = self.raw.get(key)
        if not is_whole(value, minimum, maximum):
            self.refuse(key, f"a whole number from {minimum} to {maximum}")
        return value

    def number(self, key: str) -> float:
        value = self.raw.get(key)
        if not is_number(value):
            self.refuse(key, f"a number from 0 to {MAX_NUMBER:g}")
        return float(value)

    def child(self, key: str) -> Fields:
        return Fields(self.raw.get(key), f"{self.where}: {key}")

    def optional(self, key: str) -> Fields | None:
        return None if self.raw.get(key) is None else self.child(key)

    def children(self, key: str, *, most: int | None = None) -> list[Fields]:
        values = self._list(key, most)
        return [Fields(value, f"{self.where}: {key}[{n}]") for n, value in enumerate(values)]

    def members(self, key: str) -> Iterator[tuple[str, Fields]]:
        inner = self.child(key)
        for name in inner.raw:
            yield name, inner.child(name)

    def name_list(self, key: str, pattern: re.Pattern[str], kind: str) -> tuple[str, ...]:
        values = self._list(key, MAX_LISTED)
        if not all(names.matches(pattern, value) for value in values):
            self.refuse(key, f"a list of {kind}s")
        return tuple(values)

    def lumis(self, key: str, *, most: int | None = None) -> Lumis:
        """Read {"run": [[first, last], …]} with whole numbers; return sorted, disjoint ranges."""
        return union([self._ranges(key, 2, most)])

    def lumi_events(self, key: str) -> LumiEvents:
        """Read {"run": [[first, last, events in each], …]} with whole numbers."""
        return self._ranges(key, 3, MAX_RANGES)

    def _ranges(self, key: str, size: int, most: int | None) -> Lumis:
        found: Lumis = {}
        for run, ranges in self.child(key).raw.items():
            if not (_RUN.fullmatch(run) and isinstance(ranges, list)):
                self.refuse(key, '{"run": [[first, last], …]}')
            for pair in ranges:
                if not (isinstance(pair, list) and len(pair) == size and all(map(is_whole, pair))):
                    self.refuse(key, f"pairs of whole numbers for run {run}")
                if not pair[0] <= pair[1] <= MAX_LUMI:
                    self.refuse(key, f"ranges first <= last for run {run}")
            found[int(run)] = [list(pair) for pair in ranges]
        if most is not None and sum(map(len, found.values())) > most:
            self.refuse(key, f"at most {most} ranges")
        return found

    def _list(self, key: str, most: int | None) -> list[Any]:
        value = self.raw.get(key)
        if not isinstance(value, list):
            self.refuse(key, "a list")
        if most is not None and len(value) > most:
            raise ClaimRefused(f"{self.where}: {key}: {len(value)} entries, at most {most} are allowed")
        return value


def _shown(value: object) -> str:
    return clean_text(_SHORT.repr(value), 80)
