"""Endpoints of the lab below /lab: health, content, faults, settings, and adding data."""

from __future__ import annotations

import sqlite3
from typing import Any

from lab.cms_world import rucio_dids, rucio_rses, rucio_subscriptions
from lab.cms_world.configcache import add_config
from lab.cms_world.faults import list_faults, parse_faults, replace_faults
from lab.cms_world.known import Credentials
from lab.cms_world.messages import Call, Refused, Reply, json_reply
from lab.cms_world.reqmgr2 import add_request
from lab.cms_world.rucio_rules import RULE_DELAY, set_state
from lab.cms_world.state import describe_world
from lab.cms_world.store import add_rse

Document = dict[str, Any]


def handle(call: Call, db: sqlite3.Connection, credentials: Credentials) -> Reply:
    """Serve /lab/…"""
    match call.method, call.parts:
        case "GET", ("health",):
            return json_reply({"status": "ok"})
        case "GET", ("state",):
            return json_reply(describe_world(db))
        case "GET", ("faults",):
            return json_reply(list_faults(db))
        case "PUT", ("faults",):
            replace_faults(db, parse_faults(call.document()))
            return json_reply(list_faults(db))
        case "PUT", ("settings",):
            return _change_settings(db, call.document())
        case "PUT", ("rules",):
            return _change_rules(db, call.document(), call.now)
        case "PUT", ("rses",):
            return _add_rses(db, call.document())
        case "PUT", ("sites",):
            return _change_sites(db, call.document())
        case "DELETE", ("replicas",):
            rucio_dids.remove_replicas(db, call.document()["rse"], call.document()["lfns"])
            return json_reply({})
        case "POST", ("requests",):
            return json_reply({"request": add_request(db, call.document())}, 201)
        case "POST", ("configs",):
            return json_reply({"config": add_config(db, call.document())}, 201)
        case "POST", ("subscriptions",):
            return _add_subscription(db, call.document(), credentials, call.now)
        case "POST", ("datasets",):
            add_dataset(db, call.document(), account=credentials.account, now=call.now)
            return json_reply({"dataset": call.document()["dataset"]}, 201)
        case _:
            raise Refused(json_reply({"error": f"no {call.method} {call.target}"}, 404))


def add_dataset(db: sqlite3.Connection, document: Document, *, account: str, now: float) -> None:
    """Add an input dataset to DBS and Rucio unless it exists.

    {"dataset", "blocks": [{"name", "rses": [first is the origin], "files": [{"lfn", "size_bytes", "events",
    "adler32", "lumis": {run: [[first, last]]}, "rses": […] instead of the block's}]}], and optionally
    "access_type", "primary_type", "acquisition_era", "processing_version", "physics_group", "prep_id",
    "created_by"}
    """
    name, created_at = document["dataset"], int(now)
    db.execute(
        "INSERT OR IGNORE INTO dbs_datasets VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            name,
            document.get("access_type", "VALID"),
            document.get("primary_type", "data"),
            document.get("acquisition_era", name.split("/")[2].split("-")[0]),
            document.get("processing_version", 1),
            document.get("physics_group", "NoGroup"),
            document.get("prep_id", ""),
            created_at,
            document.get("created_by", "lab"),
            created_at,
        ),
    )
    _once(db, name, "CONTAINER", account, now)
    for block in document["blocks"]:
        _add_block(db, name, block, account=account, now=now)


def _add_block(db: sqlite3.Connection, dataset: str, block: Document, *, account: str, now: float) -> None:
    name, files = block["name"], block["files"]
    size_bytes = sum(file["size_bytes"] for file in files)
    db.execute(
        "INSERT OR IGNORE INTO dbs_blocks VALUES (?, ?, ?, 0, ?, ?, ?, 'lab')",
        (name, dataset, block["rses"][0], size_bytes, len(files), int(now)),
    )
    _once(db, name, "DATASET", account, now)
    db.execute("INSERT OR IGNORE INTO rucio_contents VALUES (?, ?)", (dataset, name))
    for file in files:
        _add_file(db, dataset, name, file, now)
        replica = {"name": file["lfn"], "bytes": file["size_bytes"], "adler32": file["adler32"]}
        for rse in file.get("rses") or block["rses"]:
            rucio_dids.add_replicas(db, rse, [replica], account=account, now=now)
        db.execute("INSERT OR IGNORE INTO rucio_contents VALUES (?, ?)", (name, file["lfn"]))
    db.execute("UPDATE rucio_dids SET is_open = 0 WHERE name = ?", (name,))


def _add_file(db: sqlite3.Connection, dataset: str, block: str, file: Document, now: float) -> None:
    facts = (file["size_bytes"], file["events"], file["adler32"])
    db.execute(
        "INSERT OR IGNORE INTO dbs_files VALUES (?, ?, ?, ?, ?, ?, 1, ?, 'lab')",
        (file["lfn"], block, dataset, *facts, int(now)),
    )
    db.executemany(
        "INSERT OR IGNORE INTO dbs_lumis VALUES (?, ?, ?, NULL)",
        [
            (file["lfn"], int(run), lumi)
            for run, ranges in file["lumis"].items()
            for first, last in ranges
            for lumi in range(first, last + 1)
        ],
    )


def _once(db: sqlite3.Connection, name: str, kind: str, account: str, now: float) -> None:
    db.execute(
        "INSERT OR IGNORE INTO rucio_dids VALUES (?, ?, 1, ?, NULL, NULL, ?)", (name, kind, account, now)
    )


def _change_rules(db: sqlite3.Connection, document: Document, now: float) -> Reply:
    """Change rules: {"from": state, and optionally "to": state, "account", "name", "rse_expression"}.

    This simulates decisions of Rucio's daemons, or a change by the owner.
    """
    rows = db.execute(
        "SELECT id FROM rucio_rules WHERE state = ? AND ? IN ('', name) AND ? IN ('', rse_expression)",
        (document["from"], document.get("name", ""), document.get("rse_expression", "")),
    ).fetchall()
    for row in rows:
        if "to" in document:
            set_state(db, row["id"], document["to"], now)
        if "account" in document:
            db.execute("UPDATE rucio_rules SET account = ? WHERE id = ?", (document["account"], row["id"]))
    return json_reply({"changed": len(rows)})


def _add_rses(db: sqlite3.Connection, document: list[Document]) -> Reply:
    """[{"name", "site", and optionally "kind", "attributes", "readers": [sites], "protocols" as Rucio's}]"""
    for rse in document:
        kind = rse.get("kind", "DISK")
        attributes = {"rse_type": kind, **rse.get("attributes", {})}
        add_rse(db, name=rse["name"], site=rse["site"], kind=kind, attributes=attributes)
        if "protocols" in rse:
            rucio_rses.set_protocols(db, rse["name"], rse["protocols"])
        readers = [(rse["name"], site) for site in rse.get("readers", ())]
        db.executemany("INSERT OR IGNORE INTO readers VALUES (?, ?)", readers)
    return json_reply({"rses": [row["name"] for row in db.execute("SELECT name FROM rses ORDER BY name")]})


def _change_sites(db: sqlite3.Connection, document: Document) -> Reply:
    """Set the state of sites in CRIC: {site: "ACTIVE", "DISABLED" or "ABSENT", which is listed nowhere}."""
    db.executemany("INSERT OR REPLACE INTO site_states VALUES (?, ?)", document.items())
    return json_reply(document)


def _add_subscription(
    db: sqlite3.Connection, document: Document, credentials: Credentials, now: float
) -> Reply:
    """Add {"name", "pattern", "rse_expression"[, "copies"]} unless one of that name exists."""
    known = "SELECT 1 FROM rucio_subscriptions WHERE account = ? AND name = ?"
    if db.execute(known, (credentials.account, document["name"])).fetchone() is None:
        options = {
            "filter": {"scope": ["cms"], "did_type": ["CONTAINER"], "pattern": document["pattern"]},
            "replication_rules": [
                {
                    "copies": document.get("copies", 1),
                    "rse_expression": document["rse_expression"],
                    "activity": "Production Output",
                }
            ],
        }
        rucio_subscriptions.add(
            db, account=credentials.account, name=document["name"], options=options, now=now
        )
    return json_reply({"subscription": document["name"]}, 201)


def _change_settings(db: sqlite3.Connection, document: Document) -> Reply:
    unknown = sorted(set(document) - {RULE_DELAY})
    if unknown:
        raise Refused(json_reply({"error": f"no setting {unknown[0]}"}, 400))
    for key, value in document.items():
        db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, str(float(value))))
    return json_reply(document)
