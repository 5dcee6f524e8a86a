"""The ConfigCache, a CouchDB database: documents that describe configurations, and their files."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from lab.cms_world.messages import Call, Refused, Reply, json_reply

DATABASE = "reqmgr_config_cache"
TEXT = "text/plain"


def handle(call: Call, db: sqlite3.Connection) -> Reply:
    """Serve /couchdb/reqmgr_config_cache/<id>[/configFile]"""
    match call.method, call.parts:
        case "GET", (database, config_id) if database == DATABASE:
            return Reply(200, _row(db, config_id)["document"].encode())
        case "GET", (database, config_id, "configFile") if database == DATABASE:
            return Reply(200, _row(db, config_id)["content"].encode(), TEXT)
        case _:
            raise _missing()


def add_config(db: sqlite3.Connection, document: dict[str, Any]) -> str:
    """Store a configuration: {"id", "content", "modules": {label: {"dataTier"[, "filterName"]}}}.

    A known one is replaced.
    """
    modules = {
        label: {"dataset": {"filterName": "", **dataset}} for label, dataset in document["modules"].items()
    }
    described = {
        "_id": document["id"],
        "pset_tweak_details": {"process": {"outputModules_": list(modules), **modules}},
    }
    db.execute(
        "INSERT OR REPLACE INTO configs VALUES (?, ?, ?)",
        (document["id"], json.dumps(described), document["content"]),
    )
    return str(document["id"])


def _row(db: sqlite3.Connection, config_id: str) -> sqlite3.Row:
    row: sqlite3.Row | None = db.execute("SELECT * FROM configs WHERE id = ?", (config_id,)).fetchone()
    if row is None:
        raise _missing()
    return row


def _missing() -> Refused:
    return Refused(json_reply({"error": "not_found", "reason": "missing"}, 404))
