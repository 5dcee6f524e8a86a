"""Rucio subscriptions that match a dataset, by the rules of Rucio's own matching. Pure."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from math import inf
from typing import Any

from cms.types import Destination

log = logging.getLogger(__name__)

EVERYWHERE = "*"  # as the number of copies
ASLEEP = frozenset({"INACTIVE", "BROKEN"})
# Keys about how rules are made, and keys that Rucio ignores while a container has no size.
NOT_FILTERS = frozenset({"split_rule", "min_avg_file_size", "max_avg_file_size"})


def destinations(
    rows: Iterable[dict[str, Any]], *, dataset: str, scope: str, account: str
) -> list[Destination]:
    """Return the destinations of all active subscriptions that match, by subscription name.

    Each storage expression occurs once, with the largest number of copies wanted there.
    """
    wanted: dict[str, Destination] = {}
    for row in sorted(rows, key=lambda row: (str(row["name"]), str(row["account"]))):
        if row["state"] not in ASLEEP and _wants(row, dataset, scope, account):
            for rule in _document(row["replication_rules"]):
                found = Destination(rule["rse_expression"], _copies(rule))
                wanted[found.rse_expression] = _larger(wanted.get(found.rse_expression, found), found)
    return list(wanted.values())


def _copies(rule: dict[str, Any]) -> int | None:
    copies = rule.get("copies", 1)
    return None if copies == EVERYWHERE else int(copies)


def _larger(one: Destination, other: Destination) -> Destination:
    return max(one, other, key=lambda wanted: inf if wanted.copies is None else wanted.copies)


def _wants(row: dict[str, Any], dataset: str, scope: str, account: str) -> bool:
    try:
        return all(
            _passes(key, value, dataset, scope, account) for key, value in _document(row["filter"]).items()
        )
    except re.error as error:
        log.warning("Rucio subscription %s has an invalid pattern: %s", row["name"], error)
        return False


def _passes(key: str, value: Any, dataset: str, scope: str, account: str) -> bool:
    """Return whether the dataset meets one condition. CMS datasets have no metadata to match."""
    match key:
        case "pattern":
            return re.match(value, dataset) is not None
        case "excluded_pattern":
            return re.match(value, dataset) is None
        case "scope":
            return any(re.match(pattern, scope) for pattern in _listed(value))
        case "account":
            return account in _listed(value)
        case "did_type":
            return "CONTAINER" in _listed(value)
        case _:
            return key in NOT_FILTERS


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _document(value: Any) -> Any:
    """Return the value parsed: Rucio sends JSON inside JSON."""
    return json.loads(value) if isinstance(value, str) else value
