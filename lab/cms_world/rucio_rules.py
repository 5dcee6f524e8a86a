"""Rucio's replication rules, and the effect of its daemons in `settle`.

A rule whose files are all at its storage is OK at once. Otherwise it is REPLICATING for `rule_delay_sec`;
then it becomes OK and the replicas exist. A STUCK rule waits for a boost.
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from typing import Any

from lab.cms_world.rse_expression import BadExpression, resolve
from lab.cms_world.rucio_errors import SCOPE, not_found, refusal
from lab.cms_world.store import setting

SOFT_DELETION_SEC = 3600
RULE_DELAY = "rule_delay_sec"
ACTIVITIES = frozenset({
    "Analysis Input", "Analysis Output", "Analysis TapeRecall", "Data Brokering", "Data Challenge",
    "Data Consolidation", "Data Rebalancing", "Data rebalancing", "Debug", "Express", "Functional Test",
    "Group Subscriptions", "Manual Transfers", "Production Input", "Production Output", "Staging",
    "T0 Export", "T0 Tape", "Upload/Download (Job)", "Upload/Download (User)", "User AutoApprove",
    "User Subscriptions",
})  # fmt: skip
DEFAULT_ACTIVITY = "User Subscriptions"
STUCK_REASON = "MissingSourceReplica: this fault was asked for"
Document = dict[str, Any]
# Fields of a rule that WMS2 does not use.
SAME_FOR_ALL: Document = {
    "eol_at": None,
    "deleted_at": None,
    "locked": False,
    "purge_replicas": False,
    "split_container": False,
    "ignore_availability": False,
    "ignore_account_limit": False,
    "subscription_id": None,
    "source_replica_expression": None,
    "priority": 3,
    "weight": None,
    "notification": "NO",
    "child_rule_id": None,
}
_TREE = (
    "WITH RECURSIVE tree (name) AS ("
    " SELECT ? UNION SELECT c.child FROM rucio_contents c JOIN tree ON c.parent = tree.name)"
)


def known_rses(db: sqlite3.Connection) -> dict[str, dict[str, str]]:
    rows = db.execute("SELECT name, attributes FROM rses").fetchall()
    return {row["name"]: json.loads(row["attributes"]) for row in rows}


def files_below(db: sqlite3.Connection, name: str) -> list[sqlite3.Row]:
    """Return every file below a name, including itself."""
    return db.execute(
        f"{_TREE} SELECT d.* FROM tree JOIN rucio_dids d ON d.name = tree.name"  # noqa: S608
        " WHERE d.kind = 'FILE' ORDER BY d.name",
        (name,),
    ).fetchall()


def add(db: sqlite3.Connection, document: Document, *, account: str, now: float, stuck: bool) -> str:
    """Create a rule for a name and choose its storages."""
    name = document["dids"][0]["name"]
    if db.execute("SELECT 1 FROM rucio_dids WHERE name = ?", (name,)).fetchone() is None:
        raise refusal(404, "DataIdentifierNotFound", f"Data identifier {SCOPE}:{name} is not valid.")
    activity = document.get("activity") or DEFAULT_ACTIVITY
    if activity not in ACTIVITIES:
        raise refusal(409, "InvalidObject", f"Problem validating rule: '{activity}' is no activity")
    try:
        rses = resolve(document["rse_expression"], known_rses(db))
    except BadExpression as error:
        raise refusal(409, "InvalidRSEExpression", str(error)) from error
    copies = document["copies"]
    if copies > len(rses):
        message = f"There are not enough target RSEs to fulfil the request: {len(rses)} of {copies}"
        raise refusal(409, "InsufficientTargetRSEs", message)
    nearest = sorted(rses, key=lambda candidate: (len(_missing(db, name, candidate)), candidate))
    rse = " ".join(nearest[:copies])
    state = "STUCK" if stuck else "REPLICATING" if _missing(db, name, rse) else "OK"
    options = {
        "activity": activity,
        "grouping": document.get("grouping") or "DATASET",
        "comments": document.get("comment"),
        "meta": document.get("meta"),
    }
    lifetime, rule_id = document.get("lifetime"), uuid.uuid4().hex
    values = (
        rule_id,
        name,
        document.get("account") or account,
        document["rse_expression"],
        copies,
        rse,
        state,
        now + setting(db, RULE_DELAY, 0.0),
        None if lifetime is None else now + lifetime,
        now,
        now,
        json.dumps(options),
    )
    try:
        db.execute("INSERT INTO rucio_rules VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    except sqlite3.IntegrityError as error:
        raise refusal(409, "DuplicateRule", str(error)) from error
    return rule_id


def find(db: sqlite3.Connection, rule_id: str) -> sqlite3.Row:
    row: sqlite3.Row | None = db.execute("SELECT * FROM rucio_rules WHERE id = ?", (rule_id,)).fetchone()
    if row is None:
        raise refusal(404, "RuleNotFound", f"No rule with the id {rule_id} found")
    return row


def of_name(db: sqlite3.Connection, name: str) -> list[Document]:
    if db.execute("SELECT 1 FROM rucio_dids WHERE name = ?", (name,)).fetchone() is None:
        raise not_found(name)
    rows = db.execute("SELECT * FROM rucio_rules WHERE name = ? ORDER BY created_at, id", (name,)).fetchall()
    size_bytes = sum(file["size_bytes"] for file in files_below(db, name))
    return [{**describe(db, row), "bytes": size_bytes} for row in rows]


def describe(db: sqlite3.Connection, row: sqlite3.Row) -> Document:
    """Return the rule in Rucio's format."""
    options = json.loads(row["options"])
    total = len(files_below(db, row["name"])) * row["copies"]
    missing = len(_missing(db, row["name"], row["rse"]))
    is_stuck = row["state"] == "STUCK"
    did_type = db.execute("SELECT kind FROM rucio_dids WHERE name = ?", (row["name"],)).fetchone()["kind"]
    return {
        "id": row["id"],
        "scope": SCOPE,
        "name": row["name"],
        "did_type": did_type,
        "account": row["account"],
        "rse_expression": row["rse_expression"],
        "copies": row["copies"],
        "state": row["state"],
        "error": STUCK_REASON if is_stuck else None,
        "locks_ok_cnt": total - missing,
        "locks_replicating_cnt": 0 if is_stuck else missing,
        "locks_stuck_cnt": missing if is_stuck else 0,
        "activity": options["activity"],
        "grouping": options["grouping"],
        "comments": options["comments"],
        "meta": options["meta"],
        "created_at": _date(row["created_at"]),
        "updated_at": _date(row["updated_at"]),
        "expires_at": _date(row["expires_at"]),
        "stuck_at": _date(row["updated_at"]) if is_stuck else None,
        **SAME_FOR_ALL,
    }


def update(db: sqlite3.Connection, rule_id: str, options: Document, *, now: float) -> None:
    row = find(db, rule_id)
    unknown = sorted(set(options) - {"lifetime", "boost_rule", "state"})
    if unknown:
        raise refusal(400, "UnsupportedOperation", f"Option {unknown[0]} is not supported here")
    if "lifetime" in options:
        lifetime = options["lifetime"]
        expires_at = None if lifetime is None else now + lifetime
        db.execute("UPDATE rucio_rules SET expires_at = ? WHERE id = ?", (expires_at, rule_id))
    if options.get("state"):
        set_state(db, rule_id, options["state"], now)
    if options.get("boost_rule") and row["state"] == "STUCK":
        set_state(db, rule_id, "REPLICATING", now)


def delete(db: sqlite3.Connection, rule_id: str, *, now: float) -> None:
    """Delete the rule an hour later, like Rucio."""
    find(db, rule_id)
    db.execute("UPDATE rucio_rules SET expires_at = ? WHERE id = ?", (now + SOFT_DELETION_SEC, rule_id))


def reconsider(db: sqlite3.Connection, name: str, now: float) -> None:
    """Update rules on this name and above it after an attachment."""
    above = db.execute(
        "WITH RECURSIVE up (name) AS ("
        " SELECT ? UNION SELECT c.parent FROM rucio_contents c JOIN up ON c.child = up.name)"
        " SELECT r.id, r.name, r.rse FROM rucio_rules r JOIN up ON up.name = r.name WHERE r.state = 'OK'",
        (name,),
    ).fetchall()
    for row in above:
        if _missing(db, row["name"], row["rse"]):
            set_state(db, row["id"], "REPLICATING", now)


def settle(db: sqlite3.Connection, now: float) -> None:
    """Apply the due work of Rucio's daemons: expire, transfer, complete."""
    db.execute("DELETE FROM rucio_rules WHERE expires_at <= ?", (now,))
    ripe = db.execute(
        "SELECT id, name, rse FROM rucio_rules WHERE state = 'REPLICATING' AND ready_at <= ?", (now,)
    ).fetchall()
    for row in ripe:
        arrived = _missing(db, row["name"], row["rse"])
        db.executemany("INSERT OR IGNORE INTO rucio_replicas VALUES (?, ?)", arrived)
        set_state(db, row["id"], "OK", now)


def _missing(db: sqlite3.Connection, name: str, rses: str) -> list[tuple[str, str]]:
    """Return the files below a name that these storages do not have, with the storage."""
    query = (
        f"{_TREE} SELECT tree.name FROM tree JOIN rucio_dids d ON d.name = tree.name WHERE d.kind = 'FILE'"  # noqa: S608
        " AND NOT EXISTS (SELECT 1 FROM rucio_replicas r WHERE r.lfn = tree.name AND r.rse = ?)"
    )
    return [(row["name"], rse) for rse in rses.split() for row in db.execute(query, (name, rse))]


def set_state(db: sqlite3.Connection, rule_id: str, state: str, now: float) -> None:
    db.execute(
        "UPDATE rucio_rules SET state = ?, ready_at = ?, updated_at = ? WHERE id = ?",
        (state, now + setting(db, RULE_DELAY, 0.0), now, rule_id),
    )


def _date(moment: float | None) -> str | None:
    return None if moment is None else time.strftime("%a, %d %b %Y %H:%M:%S UTC", time.gmtime(moment))
