"""Which Rucio subscriptions want a dataset, by the rules Rucio's own matching follows. Pure."""

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
# Keys that say how rules are made, or that Rucio leaves out while a container has no size yet.
NOT_FILTERS = frozenset({"split_rule", "min_avg_file_size", "max_avg_file_size"})


def destinations(
    rows: Iterable[dict[str, Any]], *, dataset: str, scope: str, account: str
) -> list[Destination]:
    """Where every waking subscription that matches wants it, by subscription name.

    Each storage expression comes once, with the most copies that anybody wants there.
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
        log.warning("Rucio subscription %s has a pattern that cannot be used: %s", row["name"], error)
        return False


def _passes(key: str, value: Any, dataset: str, scope: str, account: str) -> bool:
    """One condition of the filter. Conditions on metadata never pass: CMS datasets carry none."""
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
    """Rucio sends these as JSON inside JSON."""
    return json.loads(value) if isinstance(value, str) else value
