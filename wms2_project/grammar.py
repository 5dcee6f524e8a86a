"""Grammar of every name that is written to a submit file or path or sent to another service.

Names are matched in full, as ASCII, at the API, in the models and in the DAG writer: a newline in such a
field could become a command on the submit host.
"""

from __future__ import annotations

import re
from enum import StrEnum

from sandbox import names
from wms2_project.errors import InvalidInput


class Name(StrEnum):
    """Kinds of names; the value is used in error messages."""

    REQUEST = "request name"
    DATASET = "dataset"
    BLOCK = "block"
    SITE = "site"
    RSE = "storage name"
    LFN = "logical file name"
    LFN_BASE = "logical file name base"
    WORD = "name"
    RELEASE = "software release"
    ACTOR = "actor"


_PATTERNS: dict[Name, tuple[re.Pattern[str], str]] = {
    Name.REQUEST: (names.REQUEST, "letters, digits, '_', '.', '-', at most 200, no '..'"),
    Name.DATASET: (names.DATASET, "/Primary/Processed/TIER"),
    Name.BLOCK: (
        re.compile(names.DATASET.pattern + r"#[A-Za-z0-9-]{1,64}", re.ASCII),
        "/Primary/Processed/TIER#id",
    ),
    Name.SITE: (names.SITE, "a CMS site name such as T2_CH_CERN"),
    Name.RSE: (
        re.compile(r"T[0-3]_[A-Z]{2}_[A-Za-z0-9_-]{1,80}", re.ASCII),
        "a storage name such as T1_US_FNAL_Disk",
    ),
    Name.LFN: (names.LFN, "/store/… without '..'"),
    Name.LFN_BASE: (names.LFN_BASE, "/store/… without '..'"),
    Name.WORD: (names.REQUEST, "letters, digits, '_', '.', '-'"),
    Name.RELEASE: (names.RELEASE, "such as CMSSW_14_0_0"),
    Name.ACTOR: (re.compile(r"[a-z]+:[A-Za-z0-9_.@=/ -]{1,240}", re.ASCII), "kind:name"),
}
MAX_LENGTH = names.MAX_LENGTH


def described(name: Name) -> tuple[str, str]:
    """Return the grammar of this kind of name as a regular expression and in words."""
    pattern, words = _PATTERNS[name]
    return pattern.pattern, words


def matches(name: Name, value: object) -> bool:
    """Return whether the value is a legal name of this kind."""
    return names.matches(_PATTERNS[name][0], value)


def check(name: Name, value: object, *, field: str = "") -> str:
    """Return the value if it is a legal name of this kind; raise InvalidInput naming the field otherwise."""
    if matches(name, value):
        return str(value)
    field = field or name.value.replace(" ", "_")
    message = f"{str(value)[:80]!r} is not a legal {name.value}: expected {_PATTERNS[name][1]}"
    raise InvalidInput(f"{field}: {message}", fields={field: message})
