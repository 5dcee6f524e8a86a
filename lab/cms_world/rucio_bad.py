"""Rucio's bad replicas, which are not listed any more, and suspicious ones, which are only recorded."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from lab.cms_world.rse_expression import BadExpression, resolve
from lab.cms_world.rucio_errors import SCOPE, refusal
from lab.cms_world.rucio_rules import known_rses

BAD, SUSPICIOUS = "BAD", "SUSPICIOUS"
Document = dict[str, Any]


def declare_bad(
    db: sqlite3.Connection, document: Document, *, account: str, now: float
) -> dict[str, list[str]]:
    """Declare replicas, given as {scope, name, rse}, bad; return what was not declared, by storage."""
    refused: dict[str, list[str]] = {}
    for replica in document["replicas"]:
        name, rse = replica["name"], replica["rse"]
        if rse not in known_rses(db):
            raise refusal(404, "RSENotFound", f"RSE '{rse}' cannot be found in vo 'def'")
        if not _exists(db, name, rse):
            refused.setdefault(rse, []).append(f"({SCOPE}, '{name}') Unknown replica")
        elif is_bad(db, name, rse):
            refused.setdefault(rse, []).append(f"{SCOPE}:{name} Already declared")
        else:
            _note(db, name, rse, BAD, document.get("reason"), account, now)
    return refused


def declare_suspicious(
    db: sqlite3.Connection, document: Document, *, account: str, now: float
) -> dict[str, list[str]]:
    """Record replicas, given by their physical names, as suspicious. Each call counts."""
    refused: dict[str, list[str]] = {}
    for pfn in document["pfns"]:
        parts = urlsplit(pfn)
        if _exists(db, parts.path, parts.netloc):
            _note(db, parts.path, parts.netloc, SUSPICIOUS, document.get("reason"), account, now)
        else:
            refused.setdefault(parts.netloc or "unknown", []).append(f"{pfn} Unknown replica")
    return refused


def suspicious(db: sqlite3.Connection, expression: str) -> Iterable[Document]:
    """Return suspicious replicas at these storages that are not bad, with the number of records of each."""
    try:
        rses: Sequence[str] = resolve(expression, known_rses(db))
    except BadExpression as error:
        raise refusal(400, "InvalidRSEExpression", str(error)) from error
    rows = db.execute(
        "SELECT lfn, rse, count(*) AS cnt, max(created_at) AS at FROM rucio_bad_replicas"
        " WHERE state = ? GROUP BY lfn, rse ORDER BY lfn, rse",
        (SUSPICIOUS,),
    ).fetchall()
    for row in rows:
        if row["rse"] in rses and not is_bad(db, row["lfn"], row["rse"]):
            yield {
                "scope": SCOPE,
                "name": row["lfn"],
                "rse": row["rse"],
                "rse_id": row["rse"],
                "cnt": row["cnt"],
                "created_at": row["at"],
            }


def is_bad(db: sqlite3.Connection, name: str, rse: str) -> bool:
    """Return whether the replica was declared bad."""
    row = db.execute(
        "SELECT 1 FROM rucio_bad_replicas WHERE lfn = ? AND rse = ? AND state = ?", (name, rse, BAD)
    ).fetchone()
    return row is not None


def _exists(db: sqlite3.Connection, name: str, rse: str) -> bool:
    row = db.execute("SELECT 1 FROM rucio_replicas WHERE lfn = ? AND rse = ?", (name, rse)).fetchone()
    return row is not None


def _note(
    db: sqlite3.Connection, name: str, rse: str, state: str, reason: str | None, account: str, now: float
) -> None:
    row = (name, rse, state, reason or "", account, now)
    db.execute("INSERT INTO rucio_bad_replicas VALUES (?, ?, ?, ?, ?, ?)", row)
