"""Rucio's names: containers, datasets and files, their attachments and replicas."""

from __future__ import annotations

import ast
import re
import sqlite3
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Any

from lab.cms_world import rucio_rules
from lab.cms_world.rse_expression import resolve
from lab.cms_world.rucio_bad import BAD, is_bad
from lab.cms_world.rucio_errors import SCOPE, not_found, refusal

MAX_NAMES = 1000
_DATASET = r"/[a-zA-Z0-9_-]{1,99}/[a-zA-Z0-9._-]{1,199}/[A-Z0-9-]{1,99}"
NAME = re.compile(rf"{_DATASET}(#[a-zA-Z0-9._-]{{1,100}})?|/store/[A-Za-z0-9][A-Za-z0-9._/-]{{1,493}}")
Document = dict[str, Any]


def add(db: sqlite3.Connection, name: str, document: Document, *, account: str, now: float) -> None:
    """Create a container or a dataset, open and empty."""
    if not NAME.fullmatch(name):
        raise refusal(
            400, "InvalidObject", f"Problem validating did: '{name}' does not match '{NAME.pattern}'"
        )
    if document.get("type") not in {"CONTAINER", "DATASET"}:
        raise refusal(400, "InvalidType", f"a name of type {document.get('type')} cannot be created here")
    try:
        db.execute(
            "INSERT INTO rucio_dids VALUES (?, ?, 1, ?, NULL, NULL, ?)",
            (name, document["type"], account, now),
        )
    except sqlite3.IntegrityError as error:
        raise refusal(409, "DataIdentifierAlreadyExists", "Data Identifier already exists!") from error


def describe(db: sqlite3.Connection, name: str) -> Document:
    row = find(db, name)
    common = {"scope": SCOPE, "name": name, "type": row["kind"], "account": row["account"]}
    if row["kind"] == "FILE":
        return {**common, "bytes": row["size_bytes"], "length": 1, "md5": None, "adler32": row["adler32"]}
    below = [] if row["is_open"] else files(db, name)
    return {
        **common,
        "open": bool(row["is_open"]),
        "monotonic": False,
        "expired_at": None,
        "length": None if row["is_open"] else len(below),
        "bytes": None if row["is_open"] else sum(file["bytes"] for file in below),
    }


def find(db: sqlite3.Connection, name: str) -> sqlite3.Row:
    row: sqlite3.Row | None = db.execute("SELECT * FROM rucio_dids WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise not_found(name)
    return row


def attach(db: sqlite3.Connection, name: str, document: Document, *, account: str, now: float) -> None:
    """Attach all of the names, or none."""
    children = document.get("dids") or []
    if not 0 < len(children) <= MAX_NAMES:
        raise refusal(500, "InvalidObject", f"Problem validating attachment: {len(children)} dids")
    parent = find(db, name)
    if not parent["is_open"]:
        raise refusal(409, "UnsupportedOperation", f"Data identifier '{SCOPE}:{name}' is closed")
    if document.get("rse"):
        add_replicas(db, document["rse"], children, account=account, now=now)
    for child in children:
        _attach_one(db, parent, child)
    rucio_rules.reconsider(db, name, now)


def _attach_one(db: sqlite3.Connection, parent: sqlite3.Row, child: Document) -> None:
    row = find(db, child["name"])
    if (row["kind"] == "FILE") != (parent["kind"] == "DATASET"):
        message = f"a {row['kind']} cannot be attached to a {parent['kind']}"
        raise refusal(409, "UnsupportedOperation", message)
    for key, value in (("bytes", row["size_bytes"]), ("adler32", row["adler32"])):
        if key in child and str(child[key]) != str(value):
            message = f"{key} mismatch for '{SCOPE}:{child['name']}': {child[key]}!={value}"
            raise refusal(500, "FileConsistencyMismatch", message)
    try:
        db.execute("INSERT INTO rucio_contents VALUES (?, ?)", (parent["name"], child["name"]))
    except sqlite3.IntegrityError as error:
        error_class = "FileAlreadyExists" if row["kind"] == "FILE" else "DuplicateContent"
        raise refusal(409, error_class, str(error)) from error


def content(db: sqlite3.Connection, name: str) -> list[Document]:
    find(db, name)
    rows = db.execute(
        "SELECT d.* FROM rucio_contents c JOIN rucio_dids d ON d.name = c.child WHERE c.parent = ?"
        " ORDER BY d.name",
        (name,),
    )
    return [
        {
            "scope": SCOPE,
            "name": row["name"],
            "type": row["kind"],
            "bytes": row["size_bytes"],
            "adler32": row["adler32"],
            "md5": None,
        }
        for row in rows
    ]


def files(db: sqlite3.Connection, name: str) -> list[Document]:
    """Return every file below a name, including itself."""
    find(db, name)
    return [
        {
            "scope": SCOPE,
            "name": row["name"],
            "bytes": row["size_bytes"],
            "adler32": row["adler32"],
            "guid": None,
            "events": None,
        }
        for row in rucio_rules.files_below(db, name)
    ]


def search(db: sqlite3.Connection, filters: str, kind: str) -> list[str]:
    """Return the names of a kind that were closed since a time and match a pattern."""
    if kind not in ("container", "dataset"):
        raise refusal(409, "UnsupportedOperation", f"{kind} is not a valid type here")
    found: list[str] = []
    for wanted in ast.literal_eval(filters):
        unknown = wanted.keys() - {"name", "closed_at.gte"}
        if unknown:
            raise refusal(400, "InvalidMetadata", f"no metadata plugin manages {min(unknown)}")
        since = parsedate_to_datetime(wanted["closed_at.gte"]).timestamp()
        matches = re.compile(".*".join(map(re.escape, wanted["name"].split("*")))).fullmatch
        rows = db.execute(
            "SELECT d.name FROM rucio_closings c JOIN rucio_dids d USING (name)"
            " WHERE d.kind = ? AND c.closed_at >= ?",
            (kind.upper(), since),
        )
        found += [str(row["name"]) for row in rows if matches(row["name"])]
    return found


def close(db: sqlite3.Connection, name: str, document: Document, *, now: float) -> None:
    row = find(db, name)
    if document.get("open") is not False:
        raise refusal(409, "UnsupportedStatus", "only open: false is understood")
    if not row["is_open"]:
        message = f"The status of the data identifier '{SCOPE}:{name}' cannot be changed"
        raise refusal(409, "UnsupportedOperation", message)
    db.execute("UPDATE rucio_dids SET is_open = 0 WHERE name = ?", (name,))
    db.execute("INSERT OR REPLACE INTO rucio_closings VALUES (?, ?)", (name, now))


def add_replicas(
    db: sqlite3.Connection, rse: str, files: Sequence[Document], *, account: str, now: float
) -> None:
    """Register files at a storage; like Rucio, ignore those that are registered already."""
    if rse not in rucio_rules.known_rses(db):
        raise refusal(404, "RSENotFound", f"RSE '{rse}' cannot be found in vo 'def'")
    for file in files:
        if not NAME.fullmatch(file["name"]):
            raise refusal(400, "InvalidObject", f"Problem validating dids: '{file['name']}'")
    db.executemany(
        "INSERT OR IGNORE INTO rucio_dids VALUES (?, 'FILE', 0, ?, ?, ?, ?)",
        [(file["name"], account, file["bytes"], file.get("adler32"), now) for file in files],
    )
    db.executemany(
        "INSERT OR IGNORE INTO rucio_replicas VALUES (?, ?)", [(file["name"], rse) for file in files]
    )


def list_replicas(db: sqlite3.Connection, document: Document) -> list[Document]:
    """Return files with replicas below the given names; unknown names are left out.

    Bad replicas are listed only if all states are requested.
    """
    dids, wanted = document["dids"], document.get("rse_expression")
    known = rucio_rules.known_rses(db)
    rses = set(resolve(wanted, known)) if wanted else set(known)
    if len(dids) > MAX_NAMES:
        raise refusal(400, "InvalidObject", f"Problem validating r_dids: {len(dids)} dids are too many")
    replies = []
    for did in dids:
        for row in rucio_rules.files_below(db, did["name"]):
            found = db.execute("SELECT rse FROM rucio_replicas WHERE lfn = ? ORDER BY rse", (row["name"],))
            held = {
                str(one["rse"]): BAD if is_bad(db, row["name"], one["rse"]) else "AVAILABLE" for one in found
            }
            shown = {
                rse: state
                for rse, state in held.items()
                if rse in rses and (state != BAD or document.get("all_states"))
            }
            if shown:
                replies.append(_replica(row, shown))
    return replies


def remove_replicas(db: sqlite3.Connection, rse: str, names: Sequence[str]) -> None:
    """Remove replicas, as Rucio does when a storage has lost them."""
    for table in ("rucio_replicas", "rucio_bad_replicas"):
        db.executemany(
            f"DELETE FROM {table} WHERE lfn = ? AND rse = ?",  # noqa: S608
            [(name, rse) for name in names],
        )


def _replica(row: sqlite3.Row, states: dict[str, str]) -> Document:
    pfns = {rse: f"file://{rse}{row['name']}" for rse in states}
    return {
        "scope": SCOPE,
        "name": row["name"],
        "bytes": row["size_bytes"],
        "md5": None,
        "adler32": row["adler32"],
        "pfns": {
            pfn: {
                "rse_id": rse,
                "rse": rse,
                "type": "DISK",
                "volatile": False,
                "domain": "wan",
                "priority": priority,
                "client_extract": False,
            }
            for priority, (rse, pfn) in enumerate(pfns.items(), start=1)
        },
        "rses": {rse: [pfn] for rse, pfn in pfns.items()},
        "states": states,
    }
