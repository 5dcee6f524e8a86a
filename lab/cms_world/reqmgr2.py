"""ReqMgr2's data service: request documents by name or status, creation, and its state machine."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from lab.cms_world.messages import HTML, Call, Refused, Reply, json_reply

TRANSITIONS: dict[str, frozenset[str]] = {
    "new": frozenset({"assignment-approved", "rejected"}),
    "assignment-approved": frozenset({"assigned", "rejected"}),
    "assigned": frozenset({"staging", "aborted"}),
    "staging": frozenset({"staged", "aborted"}),
    "staged": frozenset({"acquired", "failed", "aborted"}),
    "acquired": frozenset({"running-open", "failed", "aborted"}),
    "running-open": frozenset({"running-closed", "force-complete", "aborted"}),
    "running-closed": frozenset({"completed", "force-complete", "aborted"}),
    "force-complete": frozenset({"completed"}),
    "completed": frozenset({"closed-out", "rejected"}),
    "closed-out": frozenset({"announced", "rejected"}),
    "announced": frozenset({"normal-archived", "rejected"}),
    "failed": frozenset({"assigned", "rejected"}),
    "aborted": frozenset({"aborted-completed"}),
    "aborted-completed": frozenset({"aborted-archived"}),
    "rejected": frozenset({"rejected-archived"}),
    "normal-archived": frozenset({"rejected-archived"}),
}
MISSING_PARAMETER, MISSING_OBJECT, INVALID_TRANSITION, INVALID_VALUE = 301, 303, 1101, 1102


def handle(call: Call, db: sqlite3.Connection) -> Reply:
    """Serve /reqmgr2/data/…"""
    if "application/json" not in call.headers.get("Accept", ""):
        raise _refusal(406, MISSING_PARAMETER, "Accept: application/json is required")
    match call.method, call.parts:
        case "GET", ("data", "request"):
            return _find(call, db)
        case "POST", ("data", "request"):
            name = add_request(db, call.document())
            return json_reply({"result": [{"request": name}]})
        case "PUT", ("data", "request", name):
            return _update(name, call.document(), db)
        case _:
            raise _refusal(404, MISSING_OBJECT, f"no {call.method} {call.target}")


def add_request(db: sqlite3.Connection, document: Any) -> str:
    """Store a request document; a known request keeps its status, others get theirs or `assigned`."""
    name = document.get("RequestName") if isinstance(document, dict) else None
    if not name:
        raise _refusal(400, MISSING_PARAMETER, "RequestName is missing")
    known = db.execute("SELECT status FROM requests WHERE name = ?", (name,)).fetchone()
    status = known["status"] if known else document.get("RequestStatus", "assigned")
    db.execute(
        "INSERT OR REPLACE INTO requests VALUES (?, ?, ?)",
        (name, status, json.dumps({**document, "RequestStatus": status})),
    )
    return str(name)


def _find(call: Call, db: sqlite3.Connection) -> Reply:
    names, statuses = call.query.get("name", []), call.query.get("status", [])
    if not names and not statuses:
        raise _refusal(400, MISSING_PARAMETER, "ask by name or by status")
    found = [
        (name, json.loads(document))
        for name, status, document in db.execute("SELECT name, status, document FROM requests ORDER BY name")
        if (not names or name in names) and (not statuses or status in statuses)
    ]
    if not found:
        return json_reply({"result": []})
    if call.argument("detail", "true").lower() == "false":
        return json_reply({"result": [name for name, _ in found]})
    return json_reply({"result": [dict(found)]})


def _update(name: str, changes: Any, db: sqlite3.Connection) -> Reply:
    row = db.execute("SELECT status, document FROM requests WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise _refusal(404, MISSING_OBJECT, f"no request named {name}")
    wanted = changes.get("RequestStatus")
    if wanted and wanted not in TRANSITIONS.get(row["status"], frozenset()):
        raise _refusal(400, INVALID_TRANSITION, f"{row['status']} cannot become {wanted}")
    if wanted == "assigned":
        _check_assignment(changes)
    document = {**json.loads(row["document"]), **changes}
    db.execute(
        "UPDATE requests SET status = ?, document = ? WHERE name = ?",
        (document["RequestStatus"], json.dumps(document), name),
    )
    return json_reply({"result": [{name: "OK"}]})


def _check_assignment(changes: Any) -> None:
    if not changes.get("Team"):
        raise _refusal(400, MISSING_PARAMETER, "Team is missing")
    if not changes.get("SiteWhitelist"):
        raise _refusal(400, INVALID_VALUE, "SiteWhitelist must not be empty")


def _refusal(status: int, code: int, detail: str) -> Refused:
    headers = {"X-REST-Status": str(code), "X-Error-HTTP": str(status), "X-Error-Detail": detail}
    return Refused(Reply(status, b"<html><body>error</body></html>", HTML, headers))
