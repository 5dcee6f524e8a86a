"""Rucio's storages (RSEs): their names, protocols and usage."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Sequence
from typing import Any

from lab.cms_world.messages import HTML, Call, Reply, json_reply, stream_reply
from lab.cms_world.rse_expression import BadExpression, resolve
from lab.cms_world.rucio_errors import no_such, refusal
from lab.cms_world.rucio_rules import known_rses
from lab.grid.description import Grid

Document = dict[str, Any]
DONE = Reply(200, b"", HTML)
OPERATIONS = {
    "lan": ("read", "write", "delete"),
    "wan": ("read", "write", "delete", "third_party_copy_read", "third_party_copy_write"),
}
SCHEMES = ("davs", "root")  # of the grid's servers, the preferred one first
NAMESPACE = uuid.UUID("5f7f2f0e-6f0b-4f5c-9f50-1a86a5a5b0d1")


def handle(call: Call, db: sqlite3.Connection) -> Reply:
    """Serve /rucio/rses/…"""
    match call.method, call.parts[1:]:
        case "GET", () | ("",):
            return _list(call, db)
        case "GET", (name,):
            return json_reply(describe(db, name))
        case "GET" | "PUT", (name, "usage"):
            return _usage(call, db, name)
        case _:
            raise no_such(call)


def set_protocols(db: sqlite3.Connection, rse: str, protocols: Sequence[Document]) -> None:
    """Replace the protocols of a storage, the preferred one first."""
    db.execute("DELETE FROM rucio_protocols WHERE rse = ?", (rse,))
    rows = [(rse, position, json.dumps(protocol)) for position, protocol in enumerate(protocols)]
    db.executemany("INSERT INTO rucio_protocols VALUES (?, ?, ?)", rows)


def adopt_grid(db: sqlite3.Connection, grid: Grid | None) -> None:
    """Make the grid's servers the protocols of its sites' disk storages; without a grid they have none."""
    db.execute("DELETE FROM rucio_protocols")
    for row in db.execute("SELECT name, site FROM rses WHERE kind = 'DISK'").fetchall():
        if grid is not None and (site := grid.sites.get(row["site"])):
            set_protocols(
                db, row["name"], [build_protocol(scheme, "localhost", site.port) for scheme in SCHEMES]
            )


def build_protocol(scheme: str, hostname: str, port: int) -> Document:
    """Return a protocol for all operations; file names follow its prefix unchanged."""
    priority = SCHEMES.index(scheme) + 1 if scheme in SCHEMES else len(SCHEMES) + 1
    return {
        "hostname": hostname,
        "scheme": scheme,
        "port": port,
        "prefix": "/",
        "impl": "rucio.rse.protocols.gfal.Default",
        "domains": {domain: dict.fromkeys(names, priority) for domain, names in OPERATIONS.items()},
        "extended_attributes": None,
    }


def describe(db: sqlite3.Connection, name: str) -> Document:
    row = db.execute("SELECT kind FROM rses WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise _not_found(name)
    found = db.execute("SELECT document FROM rucio_protocols WHERE rse = ? ORDER BY position", (name,))
    return {
        "availability_delete": True,
        "availability_read": True,
        "availability_write": True,
        "credentials": None,
        "deterministic": True,
        "domain": list(OPERATIONS),
        "id": uuid.uuid5(NAMESPACE, name).hex,
        "lfn2pfn_algorithm": "identity",
        "protocols": [json.loads(protocol["document"]) for protocol in found],
        "qos_class": None,
        "rse": name,
        "rse_type": row["kind"],
        "sign_url": None,
        "staging_area": False,
        "verify_checksum": True,
        "volatile": False,
        "availability": 7,
    }


def _list(call: Call, db: sqlite3.Connection) -> Reply:
    try:
        names = resolve(call.argument("expression", "*"), known_rses(db))
    except BadExpression as error:
        raise refusal(400, "InvalidRSEExpression", str(error)) from error
    return stream_reply({"rse": name} for name in names)


def _usage(call: Call, db: sqlite3.Connection, rse: str) -> Reply:
    """Set or list the usage of a storage by source of the measurement."""
    if rse not in known_rses(db):
        raise _not_found(rse)
    if call.method == "PUT":
        given = call.document()
        row = (rse, given["source"], given["used"], given["free"], given.get("files"), call.now)
        db.execute("INSERT OR REPLACE INTO rucio_usage VALUES (?, ?, ?, ?, ?, ?)", row)
        return DONE
    source = call.argument("source", "%")
    rows = db.execute("SELECT * FROM rucio_usage WHERE rse = ? AND source LIKE ?", (rse, source))
    return stream_reply(
        {
            **row,
            "total": row["used"] + (row["free"] or 0),
            "rse_id": rse,
            "updated_at": http_date(row["updated_at"]),
        }
        for row in map(dict, rows)
    )


def http_date(moment: float) -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S UTC", time.gmtime(moment))


def _not_found(name: str) -> Exception:
    return refusal(404, "RSENotFound", f"RSE '{name}' cannot be found")
