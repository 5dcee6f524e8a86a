"""Masks: regular expressions searched in dataset names, in linear time (RE2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import re2

from wms2_project.errors import InvalidInput

MAX_LENGTH = 500
MAX_MEMORY = 1 << 20  # bytes of one compiled mask
# Names that no mask of a campaign should match together: a mask that matches all of them matches everything
_ANY = ("/A/B-v1/RAW", "/Zmumu_13TeV/Run2031A-First-v7/AOD", "/x-9/q_w-e-v12/MINIAODSIM")
Key = TypeVar("Key")


def compile_mask(mask: str) -> Any:
    """Return the compiled mask. Raise InvalidInput with the position for what RE2 cannot do."""
    if not 0 < len(mask) <= MAX_LENGTH:
        raise _refused(f"a mask has 1 to {MAX_LENGTH} characters, this one has {len(mask)}")
    try:
        return _compiled(mask)
    except re2.error as error:
        message = error.args[0] if error.args else ""
        text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
        raise _refused(_explain(mask, text)) from error


def matches(mask: str, name: str) -> bool:
    """Return whether the mask is found in the name. An empty mask matches nothing."""
    return bool(mask) and _compiled(mask).search(name) is not None


def matching(masks: Mapping[Key, str], name: str) -> list[Key]:
    """Return the keys whose masks are found in the name."""
    return [key for key, mask in masks.items() if matches(mask, name)]


def matches_everything(mask: str) -> bool:
    """Return whether the mask is found in every dataset name, as far as samples can tell."""
    return all(matches(mask, name) for name in _ANY)


def try_examples(mask: str, names: Iterable[str]) -> dict[str, bool]:
    """Return each example with whether the mask matches it."""
    found = compile_mask(mask)
    return {name: found.search(name) is not None for name in names}


@lru_cache(maxsize=4096)
def _compiled(mask: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    return re2.compile(mask, options)


def _explain(mask: str, error: str) -> str:
    unsupported = re.search(r"\(\?(<?[=!])|\\([1-9])", mask)
    if unsupported is None:
        return error
    what = "a backreference" if unsupported[2] else "look-around"
    place = unsupported.start() + 1
    return f"{what} at character {place} is not supported, because it needs more than linear time"


def _refused(message: str) -> InvalidInput:
    return InvalidInput(
        f"mask: {message}",
        fields={"mask": message},
        cure="Use the syntax of RE2, without look-around and backreferences",
    )
