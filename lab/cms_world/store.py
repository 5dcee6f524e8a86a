"""The store: one SQLite file with one writer at a time.

Calls are served one after the other under a lock: a lab has few callers, and consistency matters more than
speed.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.cms_world.known import RSES

SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS faults (id INTEGER PRIMARY KEY, document TEXT NOT NULL, remaining INTEGER);
CREATE TABLE IF NOT EXISTS rses (
    name TEXT PRIMARY KEY, site TEXT NOT NULL, kind TEXT NOT NULL, attributes TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS readers (  -- sites besides its own that read from a storage
    rse TEXT NOT NULL REFERENCES rses, site TEXT NOT NULL, PRIMARY KEY (rse, site)) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS site_states (  -- of sites that CRIC does not have in operation, or not at all
    site TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS requests (name TEXT PRIMARY KEY, status TEXT NOT NULL, document TEXT NOT NULL);

CREATE TABLE IF NOT EXISTS configs (id TEXT PRIMARY KEY, document TEXT NOT NULL, content TEXT NOT NULL);

CREATE TABLE IF NOT EXISTS dbs_datasets (
    name TEXT PRIMARY KEY, access_type TEXT NOT NULL, primary_type TEXT NOT NULL, era TEXT NOT NULL,
    version INTEGER NOT NULL, physics_group TEXT NOT NULL, prep_id TEXT NOT NULL,
    created_at INTEGER NOT NULL, created_by TEXT NOT NULL, modified_at INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS dbs_blocks (
    name TEXT PRIMARY KEY, dataset TEXT NOT NULL REFERENCES dbs_datasets, origin TEXT NOT NULL,
    is_open INTEGER NOT NULL, size_bytes INTEGER NOT NULL, file_count INTEGER NOT NULL,
    created_at INTEGER NOT NULL, created_by TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS dbs_blocks_dataset ON dbs_blocks (dataset);
CREATE TABLE IF NOT EXISTS dbs_files (
    lfn TEXT PRIMARY KEY, block TEXT NOT NULL REFERENCES dbs_blocks, dataset TEXT NOT NULL,
    size_bytes INTEGER NOT NULL, events INTEGER, adler32 TEXT NOT NULL, is_valid INTEGER NOT NULL,
    created_at INTEGER NOT NULL, created_by TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS dbs_files_block ON dbs_files (block);
CREATE INDEX IF NOT EXISTS dbs_files_dataset ON dbs_files (dataset);
CREATE TABLE IF NOT EXISTS dbs_lumis (
    lfn TEXT NOT NULL REFERENCES dbs_files, run INTEGER, lumi INTEGER, events INTEGER,
    PRIMARY KEY (lfn, run, lumi)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS dbs_parents (
    lfn TEXT NOT NULL, parent TEXT NOT NULL, PRIMARY KEY (lfn, parent)) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS rucio_protocols (
    rse TEXT NOT NULL REFERENCES rses, position INTEGER NOT NULL, document TEXT NOT NULL,
    PRIMARY KEY (rse, position)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rucio_usage (
    rse TEXT NOT NULL REFERENCES rses, source TEXT NOT NULL, used INTEGER NOT NULL, free INTEGER,
    files INTEGER, updated_at REAL NOT NULL, PRIMARY KEY (rse, source)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rucio_tokens (
    token TEXT PRIMARY KEY, account TEXT NOT NULL, expires_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS rucio_dids (
    name TEXT PRIMARY KEY, kind TEXT NOT NULL, is_open INTEGER NOT NULL, account TEXT NOT NULL,
    size_bytes INTEGER, adler32 TEXT, created_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS rucio_closings (
    name TEXT PRIMARY KEY REFERENCES rucio_dids, closed_at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rucio_contents (
    parent TEXT NOT NULL REFERENCES rucio_dids, child TEXT NOT NULL REFERENCES rucio_dids,
    PRIMARY KEY (parent, child)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS rucio_contents_child ON rucio_contents (child);
CREATE TABLE IF NOT EXISTS rucio_replicas (
    lfn TEXT NOT NULL REFERENCES rucio_dids, rse TEXT NOT NULL REFERENCES rses,
    PRIMARY KEY (lfn, rse)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rucio_bad_replicas (
    lfn TEXT NOT NULL REFERENCES rucio_dids, rse TEXT NOT NULL REFERENCES rses, state TEXT NOT NULL,
    reason TEXT NOT NULL, account TEXT NOT NULL, created_at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS rucio_bad_replicas_name ON rucio_bad_replicas (lfn, rse);
CREATE TABLE IF NOT EXISTS rucio_rules (
    id TEXT PRIMARY KEY, name TEXT NOT NULL REFERENCES rucio_dids, account TEXT NOT NULL,
    rse_expression TEXT NOT NULL, copies INTEGER NOT NULL, rse TEXT NOT NULL, state TEXT NOT NULL,
    ready_at REAL NOT NULL, expires_at REAL, created_at REAL NOT NULL, updated_at REAL NOT NULL,
    options TEXT NOT NULL, UNIQUE (name, account, rse_expression, copies));
CREATE INDEX IF NOT EXISTS rucio_rules_state ON rucio_rules (state, ready_at);
CREATE TABLE IF NOT EXISTS rucio_subscriptions (
    id TEXT PRIMARY KEY, account TEXT NOT NULL, name TEXT NOT NULL, filter TEXT NOT NULL,
    rules TEXT NOT NULL, comments TEXT NOT NULL, created_at REAL NOT NULL, UNIQUE (account, name));
"""
FILE_NAME = "cms_world.sqlite3"


class Store:
    """The SQLite file of one server."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(directory / FILE_NAME, check_same_thread=False, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.executescript(f"BEGIN IMMEDIATE; {SCHEMA} COMMIT;")
        with self.transaction() as db:
            for rse in RSES:
                attributes = {"tier": rse.tier, "country": rse.country, "rse_type": rse.kind}
                add_rse(db, name=rse.name, site=rse.site, kind=rse.kind, attributes=attributes)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in one transaction."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def close(self) -> None:
        with self._lock:
            self._db.close()


def add_rse(db: sqlite3.Connection, *, name: str, site: str, kind: str, attributes: dict[str, str]) -> None:
    """Add the storage unless it exists."""
    db.execute("INSERT OR IGNORE INTO rses VALUES (?, ?, ?, ?)", (name, site, kind, json.dumps(attributes)))


def setting(db: sqlite3.Connection, key: str, default: float) -> float:
    row = db.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
    return float(row["value"]) if row else default
