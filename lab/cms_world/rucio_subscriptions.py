"""Rucio's subscriptions: destinations of datasets. They are stored only; WMS2 acts on them."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from typing import Any

from lab.cms_world.rucio_errors import refusal


def add(db: sqlite3.Connection, *, account: str, name: str, options: dict[str, Any], now: float) -> str:
    """Store a subscription and return its id."""
    new_id = uuid.uuid4().hex
    values = (
        new_id,
        account,
        name,
        json.dumps(options["filter"]),
        json.dumps(options["replication_rules"]),
        options.get("comments") or "",
        now,
    )
    try:
        db.execute("INSERT INTO rucio_subscriptions VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    except sqlite3.IntegrityError as error:
        message = f"Subscription '{name}' owned by '{account}' already exists!"
        raise refusal(409, "SubscriptionDuplicate", message) from error
    return new_id


def listed(db: sqlite3.Connection, *, account: str = "") -> list[dict[str, Any]]:
    """Return all subscriptions, or those of one account.

    Like Rucio, reply with an error if there are none.
    """
    rows = db.execute(
        "SELECT * FROM rucio_subscriptions WHERE ? IN ('', account) ORDER BY name", (account,)
    ).fetchall()
    if not rows:
        message = f"Subscription for account '{account or '*'}' named 'None' not found"
        raise refusal(404, "SubscriptionNotFound", message)
    return [_describe(row) for row in rows]


def _describe(row: sqlite3.Row) -> dict[str, Any]:
    created_at = time.strftime("%a, %d %b %Y %H:%M:%S UTC", time.gmtime(row["created_at"]))
    return {
        "id": row["id"],
        "account": row["account"],
        "name": row["name"],
        "state": "ACTIVE",
        "filter": row["filter"],
        "replication_rules": row["rules"],
        "comments": row["comments"],
        "lifetime": None,
        "retroactive": False,
        "policyid": 3,
        "created_at": created_at,
        "updated_at": created_at,
        "last_processed": created_at,
        "expired_at": None,
    }
