"""Lookup of field values in all places where a document may state them, with the path of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeVar

from requests_app.documents.parsers import Kind, Refused
from requests_app.documents.problems import MAX_SHOWN, Problems, key_shown, shown
from requests_app.documents.shapes import (
    BOOKKEEPING,
    LOOKALIKES,
    SET_BY_WMS2,
    STEP_KEY,
    Document,
    Scope,
    Step,
)
from requests_app.documents.table import DOCUMENT_NAMES, FIELD, OBJECT_FIELDS, REQMGR2_NAME

MAX_UNKNOWN = 1000  # unknown names to compare with fields; ReqMgr2's documents have less than a hundred
MAX_ADDED = 2  # length difference up to which a name counts as misspelt
CUTOFF = 0.8  # similarity from which a name counts as misspelt; see difflib
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """A value and its path in the document."""

    path: str
    value: Any


class Reader:
    """Looks fields up, strongest scope first, and reports values that are not accepted.

    Order: overrides; values given at assignment; values keyed by task name; the task's own; the document's;
    defaults.
    """

    def __init__(
        self,
        document: Document,
        problems: Problems,
        *,
        overrides: Mapping[str, Any],
        defaults: Mapping[str, Any],
    ) -> None:
        self.document = document
        self.problems = problems
        self._front: tuple[Scope, ...] = (Scope("", overrides), *document.scopes[:-1])
        self._back = Scope("", defaults)

    @property
    def first(self) -> Step | None:
        """The step that decides about input and splitting; None in a document without steps."""
        return self.document.steps[0] if self.document.steps else None

    def within(self, scope: Scope) -> Reader:
        """Return a reader in which this scope outranks everything but the overrides."""
        inner = copy(self)
        inner._front = (self._front[0], scope, *self._front[1:])
        return inner

    def find(self, name: str, step: Step | None = None) -> Found | None:
        """Return the strongest value of the field; None if it is not stated."""
        created = self.document.created
        key = step or self.first
        for scope in self._front:
            found = self._in(scope, name)
            if found and (one := _for_step(name, found, key)):
                return one
        found = self._in(created, name)
        keyed = found is not None and isinstance(found.value, Mapping) and name not in OBJECT_FIELDS
        if found and keyed and (one := _for_step(name, found, key)):
            return one
        own = self._in(step.scope, name) if step else None
        if own:
            return own
        if found and not (keyed and key):
            return found
        return self._in(self._back, name)

    def read(self, name: str, step: Step | None = None, *, default: Any = None) -> Any:
        """Return the validated value; if absent or refused, `default` or else the table's default."""
        field = FIELD[name]
        fallback = field.default if default is None else default
        return self.parsed(self.find(name, step), field.kind, fallback)

    def parsed(self, found: Found | None, kind: Kind[T], default: T) -> T:
        if found is None:
            return default
        try:
            return kind(found.value)
        except Refused as refused:
            self.problems.add(found.path, str(refused))
            return default

    def path(self, name: str, step: Step | None = None) -> str:
        """Return the path of the field, or where to write it if it is absent."""
        found = self.find(name, step)
        if found:
            return found.path
        scope = step.scope if step else self.document.created
        return scope.prefix + (REQMGR2_NAME[name] if self.document.camel else name)

    def _in(self, scope: Scope, name: str) -> Found | None:
        hits = [
            Found(scope.prefix + key, scope.values[key])
            for key in (name, REQMGR2_NAME[name])
            if not _absent(name, scope.values.get(key))
        ]
        if len(hits) == 2 and hits[0].value != hits[1].value:
            self.problems.add(hits[1].path, f"contradicts {hits[0].path}; keep one of the two")
        return hits[0] if hits else None


def check_names(document: Document, overrides: Iterable[str], problems: Problems, *, stored: bool) -> None:
    """Report unknown and misspelt field names, and values keyed by tasks that do not exist.

    A `stored` document was accepted before: names that look misspelt were passed to the payload.
    """
    for key in overrides:
        if key not in DOCUMENT_NAMES and not problems.full:
            problems.add(key_shown(key), _unknown(key))
    for scope in document.scopes:
        for key, value in scope.values.items():
            if problems.full:
                return
            path = scope.prefix + key_shown(key)
            if key in SET_BY_WMS2:
                problems.add(path, "is set by WMS2 itself; leave it out")
            elif key not in DOCUMENT_NAMES and (not key or key[0].islower()):
                problems.add(path, _unknown(key))
            elif document.steps and isinstance(value, Mapping):
                _check_keyed(path, key, value, document, problems)
    if not stored:
        _check_spelling([*document.scopes, *(step.scope for step in document.steps)], problems)


def _check_spelling(scopes: Iterable[Scope], problems: Problems) -> None:
    """Report unknown names that resemble the name of a field."""
    known = DOCUMENT_NAMES | BOOKKEEPING | LOOKALIKES
    unknown = [(scope.prefix, key) for scope in scopes for key in scope.values if key not in known]
    if len({key for _, key in unknown}) > MAX_UNKNOWN:
        problems.add("document", f"has more than {MAX_UNKNOWN} unknown fields; put them into payload_config")
        return
    for prefix, key in unknown:
        if close := _nearest(key[:MAX_SHOWN]):
            problems.add(prefix + key_shown(key), f"is not a field of a request; did you mean {close}?")


def _check_keyed(
    path: str, key: str, value: Mapping[str, Any], document: Document, problems: Problems
) -> None:
    objects = OBJECT_FIELDS | {REQMGR2_NAME[name] for name in OBJECT_FIELDS}
    if key in objects or key not in DOCUMENT_NAMES or STEP_KEY.fullmatch(key):
        return
    names = [step.name for step in document.steps]
    strange = [name for name in value if name not in names]
    if strange:
        listed = ", ".join(names)[:200]
        problems.add(path, f"{shown(strange[0])} is not a part of the chain; use {listed}")


def _unknown(key: str) -> str:
    close = _nearest(key[:MAX_SHOWN])
    return f"is not a field of a request; {f'did you mean {close}?' if close else 'leave it out'}"


def _fold(name: str) -> str:
    return name.replace("_", "").lower()


_FOLDED = {_fold(one): name for name, other in REQMGR2_NAME.items() for one in (name, other)}


@lru_cache(maxsize=2 * MAX_UNKNOWN)
def _nearest(key: str) -> str:
    """Return the field name that this one seems to misspell, in the same style; empty if none."""
    folded = _fold(key)
    alike = [name for name in _FOLDED if abs(len(name) - len(folded)) <= MAX_ADDED]
    close = get_close_matches(folded, alike, n=1, cutoff=CUTOFF)
    name = _FOLDED[close[0]] if close else ""
    return REQMGR2_NAME[name] if name and key[0].isupper() and "_" not in key else name


def _absent(name: str, value: object) -> bool:
    return value is None or value in ([], {}) or (value == "" and not FIELD[name].refuses_empty)


def _for_step(name: str, found: Found, step: Step | None) -> Found | None:
    """Return the part of a value keyed by task name for this step; plain values apply to all."""
    if step is None or not isinstance(found.value, Mapping) or name in OBJECT_FIELDS:
        return found
    value = found.value.get(step.name)
    return None if _absent(name, value) else Found(f"{found.path}.{step.name}", value)
