"""Checks of tables keyed by an enumeration."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def check_complete(name: str, table: Collection[str], keys: Iterable[str]) -> None:
    """Raise RuntimeError unless the table has an entry for each of the keys and no other."""
    wanted, found = {str(key) for key in keys}, {str(key) for key in table}
    if wanted != found:
        missing, unknown = sorted(wanted - found), sorted(found - wanted)
        raise RuntimeError(f"{name}: missing {missing}, unknown {unknown}: add or remove these entries")
