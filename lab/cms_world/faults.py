"""Faults on demand: which calls fail, how, and how many times.

| kind | the call is carried out | the caller sees |
|---|---|---|
| status | no | the given status |
| timeout | no | no reply for `seconds`, then a closed connection |
| slow | yes | the answer, `seconds` late |
| success_then_500 | yes | 500 |
| duplicate | twice | the second answer |
| stuck | yes, and a rule it makes is STUCK | the answer |
| wrong_counts | yes | the answer, with one more of everything that DBS counts |
"""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote

from lab.cms_world.messages import Call, Refused, json_reply

KINDS = frozenset({"status", "timeout", "slow", "success_then_500", "duplicate", "stuck", "wrong_counts"})
COUNTS = ("file_count", "block_size", "num_file", "num_event", "num_lumi", "file_size")
SERVICES = frozenset({"reqmgr2", "couchdb", "dbs", "rucio", "cric", "*"})


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault; `times` None: without limit."""

    service: str
    kind: str
    method: str = "*"
    path_regex: str = ""
    body_regex: str = ""
    status: int = 503
    seconds: float = 5.0
    times: int | None = 1

    def hits(self, call: Call) -> bool:
        return (
            self.service in {"*", call.service}
            and self.method in {"*", call.method}
            and re.search(self.path_regex, unquote(call.target)) is not None
            and re.search(self.body_regex, call.body.decode(errors="replace")) is not None
        )


def parse_faults(document: Any) -> list[Fault]:
    """Parse a list of faults; refuse faults that can never apply."""
    if not isinstance(document, list):
        raise Refused(json_reply({"error": "expected a list of faults"}, 400))
    faults = []
    for item in document:
        try:
            fault = Fault(**item)
            re.compile(fault.path_regex)
            re.compile(fault.body_regex)
        except (TypeError, re.error) as error:
            raise Refused(json_reply({"error": f"fault {item!r}: {error}"}, 400)) from error
        if fault.kind not in KINDS or fault.service not in SERVICES:
            known = f"kind of {sorted(KINDS)}, service of {sorted(SERVICES)}"
            raise Refused(json_reply({"error": f"fault {item!r}: expected {known}"}, 400))
        faults.append(fault)
    return faults


def replace_faults(db: sqlite3.Connection, faults: list[Fault]) -> None:
    db.execute("DELETE FROM faults")
    rows = [(json.dumps(asdict(fault)), fault.times) for fault in faults]
    db.executemany("INSERT INTO faults (document, remaining) VALUES (?, ?)", rows)


def list_faults(db: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return the pending faults, with their remaining number."""
    rows = db.execute("SELECT document, remaining FROM faults ORDER BY id").fetchall()
    return [{**json.loads(row["document"]), "times": row["remaining"]} for row in rows]


def miscount(body: bytes) -> bytes:
    """Return the reply with all counts increased by one."""
    document = json.loads(body)
    for row in document if isinstance(document, list) else []:
        row.update({key: row[key] + 1 for key in COUNTS if isinstance(row.get(key), int)})
    return json.dumps(document).encode()


def take_fault(db: sqlite3.Connection, call: Call) -> Fault | None:
    """Return the first fault that applies to this call, and count it."""
    for row in db.execute("SELECT id, document, remaining FROM faults ORDER BY id").fetchall():
        fault = Fault(**json.loads(row["document"]))
        if fault.hits(call):
            db.execute("UPDATE faults SET remaining = remaining - 1 WHERE id = ?", (row["id"],))
            db.execute("DELETE FROM faults WHERE remaining <= 0")
            return fault
    return None
