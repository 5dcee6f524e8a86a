"""The grammar of every name that reaches a submit file, a path or another service.

Checked with `fullmatch` on ASCII at the API, in the models and in the DAG writer: a newline in such a
field would be a command on the submit host.
"""

from __future__ import annotations

import re
from enum import StrEnum

from wms2_project.errors import InvalidInput


class Name(StrEnum):
    """What a value is; the value is how an error message calls it."""

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


_SEGMENT = r"[A-Za-z0-9_.=#-]+"
_DATASET = r"/[A-Za-z0-9_-]{1,99}/[A-Za-z0-9._-]{1,199}/[A-Z0-9-]{1,99}"
_PATTERNS: dict[Name, tuple[str, str]] = {
    Name.REQUEST: (
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}",
        "letters, digits, '_', '.', '-', at most 200, no '..'",
    ),
    Name.DATASET: (_DATASET, "/Primary/Processed/TIER"),
    Name.BLOCK: (_DATASET + r"#[A-Za-z0-9-]{1,64}", "/Primary/Processed/TIER#id"),
    Name.SITE: (r"T[0-3]_[A-Z]{2}_[A-Za-z0-9_]{1,60}", "a CMS site name such as T2_CH_CERN"),
    Name.RSE: (r"T[0-3]_[A-Z]{2}_[A-Za-z0-9_-]{1,80}", "a storage name such as T1_US_FNAL_Disk"),
    Name.LFN: (rf"/store(/{_SEGMENT})+", "/store/… without '..'"),
    Name.LFN_BASE: (rf"/store(/{_SEGMENT})*", "/store/… without '..'"),
    Name.WORD: (r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}", "letters, digits, '_', '.', '-'"),
    Name.RELEASE: (r"CMSSW_[0-9]+_[0-9]+_[A-Za-z0-9_]{1,60}", "such as CMSSW_14_0_0"),
    Name.ACTOR: (r"[a-z]+:[A-Za-z0-9_.@=/ -]{1,240}", "kind:name"),
}
_COMPILED = {name: re.compile(pattern, re.ASCII) for name, (pattern, _) in _PATTERNS.items()}
MAX_LENGTH = 500


def matches(name: Name, value: object) -> bool:
    """Is the value a legal name of this kind?"""
    return (
        isinstance(value, str)
        and len(value) <= MAX_LENGTH
        and ".." not in value
        and _COMPILED[name].fullmatch(value) is not None
    )


def check(name: Name, value: object, *, field: str = "") -> str:
    """Return the value if it is a legal name of this kind, else say which field to mend and how."""
    if matches(name, value):
        return str(value)
    field = field or name.value.replace(" ", "_")
    told = f"{str(value)[:80]!r} is not a legal {name.value}: expected {_PATTERNS[name][1]}"
    raise InvalidInput(f"{field}: {told}", fields={field: told})
