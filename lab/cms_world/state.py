"""Summary of all content, for tests."""

from __future__ import annotations

import sqlite3
from typing import Any

from lab.cms_world.faults import list_faults


def describe_world(db: sqlite3.Connection) -> dict[str, Any]:
    return {
        "requests": {row["name"]: row["status"] for row in db.execute("SELECT name, status FROM requests")},
        "dbs": {"datasets": _datasets(db), "blocks": _blocks(db)},
        "rucio": {
            "containers": _containers(db),
            "blocks": _rucio_blocks(db),
            "rules": _rules(db),
            "bad_replicas": _bad_replicas(db),
        },
        "faults": list_faults(db),
    }


def _datasets(db: sqlite3.Connection) -> dict[str, Any]:
    rows = db.execute(
        "SELECT d.name, d.access_type, count(DISTINCT f.block) AS blocks, count(f.lfn) AS files,"
        " coalesce(sum(f.events), 0) AS events, coalesce(sum(f.size_bytes), 0) AS size_bytes"
        " FROM dbs_datasets d LEFT JOIN dbs_files f ON f.dataset = d.name GROUP BY d.name"
    )
    return {row["name"]: dict(row) for row in rows}


def _blocks(db: sqlite3.Connection) -> dict[str, Any]:
    rows = db.execute("SELECT name, origin, is_open, file_count, size_bytes FROM dbs_blocks")
    return {row["name"]: dict(row) for row in rows}


def _containers(db: sqlite3.Connection) -> dict[str, list[str]]:
    rows = db.execute(
        "SELECT d.name, c.child FROM rucio_dids d LEFT JOIN rucio_contents c ON c.parent = d.name"
        " WHERE d.kind = 'CONTAINER' ORDER BY d.name, c.child"
    )
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["name"], []).extend([row["child"]] if row["child"] else [])
    return found


def _rucio_blocks(db: sqlite3.Connection) -> dict[str, Any]:
    rows = db.execute(
        "SELECT d.name, d.is_open, count(c.child) AS files FROM rucio_dids d"
        " LEFT JOIN rucio_contents c ON c.parent = d.name WHERE d.kind = 'DATASET' GROUP BY d.name"
    )
    return {row["name"]: dict(row) for row in rows}


def _rules(db: sqlite3.Connection) -> list[dict[str, Any]]:
    rows = db.execute(
        "SELECT id, name, account, rse_expression, rse, state, expires_at FROM rucio_rules"
        " ORDER BY created_at, id"
    )
    return [dict(row) for row in rows]


def _bad_replicas(db: sqlite3.Connection) -> list[dict[str, Any]]:
    rows = db.execute("SELECT lfn, rse, state, reason, account FROM rucio_bad_replicas ORDER BY created_at")
    return [dict(row) for row in rows]
