"""DBS: lists of the reader, changes of the writer. Both base paths serve the same catalogue."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from lab.cms_world.dbs_errors import ACCESS_TYPES, PARAMETERS, UNKNOWN_ACCESS_TYPE, refusal
from lab.cms_world.dbs_insert import insert_block
from lab.cms_world.messages import Call, Reply, json_reply

ALLOWED = {
    "datasets": {"dataset", "dataset_access_type", "detail"},
    "blocks": {"dataset", "block_name", "detail"},
    "files": {"dataset", "block_name", "logical_file_name", "detail", "validFileOnly"},
    "filelumis": {"block_name", "logical_file_name"},
    "filesummaries": {"dataset", "block_name", "validFileOnly"},
    "runs": {"dataset", "block_name", "logical_file_name"},
}
COLUMN_OF = {"dataset": "dataset", "block_name": "block", "logical_file_name": "lfn"}


def handle(call: Call, db: sqlite3.Connection) -> Reply:
    """Serve /dbs/DBSReader/… and /dbs/DBSWriter/…"""
    base, path = (*call.parts, "", "")[:2]
    if call.method == "GET" and base in {"DBSReader", "DBSWriter"} and path in ALLOWED:
        unknown = sorted(set(call.query) - ALLOWED[path])
        if unknown:
            raise refusal(call, 400, PARAMETERS, f"unexpected parameter {unknown[0]}")
        return json_reply(_READERS[path](call, db))
    match call.method, call.parts:
        case "POST", ("DBSWriter", "bulkblocks"):
            insert_block(call, db, call.document())
            return json_reply([])
        case "PUT", ("DBSWriter", "datasets"):
            return _set_access_type(call, db)
        case "PUT", ("DBSWriter", "files"):
            return _set_file_validity(call, db)
        case _:
            raise refusal(call, 404, PARAMETERS, f"no {call.method} {call.target}")


def _datasets(call: Call, db: sqlite3.Connection) -> list[dict[str, Any]]:
    access_type = call.argument("dataset_access_type", "VALID")
    rows = db.execute(
        "SELECT rowid, * FROM dbs_datasets WHERE name GLOB ? AND (? = '*' OR access_type = ?) ORDER BY name",
        (call.argument("dataset", "*"), access_type, access_type),
    ).fetchall()
    if call.argument("detail", "0").lower() not in {"1", "true"}:
        return [{"dataset": row["name"]} for row in rows]
    return [_dataset_record(row) for row in rows]


def _dataset_record(row: sqlite3.Row) -> dict[str, Any]:
    _, primary, processed, tier = row["name"].split("/")
    return {
        "dataset_id": row["rowid"],
        "dataset": row["name"],
        "prep_id": row["prep_id"],
        "xtcrosssection": None,
        "creation_date": row["created_at"],
        "create_by": row["created_by"],
        "last_modification_date": row["modified_at"],
        "last_modified_by": row["created_by"],
        "primary_ds_name": primary,
        "primary_ds_type": row["primary_type"],
        "processed_ds_name": processed,
        "data_tier_name": tier,
        "dataset_access_type": row["access_type"],
        "acquisition_era_name": row["era"],
        "processing_version": row["version"],
        "physics_group_name": row["physics_group"],
    }


def _blocks(call: Call, db: sqlite3.Connection) -> list[dict[str, Any]]:
    rows = db.execute(
        "SELECT b.rowid, d.rowid AS dataset_id, b.* FROM dbs_blocks b"
        " JOIN dbs_datasets d ON d.name = b.dataset WHERE ? IN (b.name, b.dataset) ORDER BY b.name",
        (call.argument("block_name") or call.argument("dataset"),),
    ).fetchall()
    return [
        {
            "block_id": row["rowid"],
            "block_name": row["name"],
            "open_for_writing": row["is_open"],
            "block_size": row["size_bytes"],
            "file_count": row["file_count"],
            "dataset_id": row["dataset_id"],
            "dataset": row["dataset"],
            "origin_site_name": row["origin"],
            "creation_date": row["created_at"],
            "create_by": row["created_by"],
            "last_modification_date": row["created_at"],
            "last_modified_by": row["created_by"],
        }
        for row in rows
    ]


def _select_files(call: Call, db: sqlite3.Connection, columns: str, joins: str = "") -> Sequence[sqlite3.Row]:
    """Return rows about the files of a dataset, block or LFN."""
    given = [name for name in COLUMN_OF if name in call.query]
    if len(given) != 1:
        raise refusal(call, 400, PARAMETERS, f"exactly one of {sorted(COLUMN_OF)} is needed")
    valid_only = call.argument("validFileOnly", "0") == "1"
    return db.execute(
        f"SELECT {columns} FROM dbs_files f {joins} WHERE f.{COLUMN_OF[given[0]]} = ?"  # noqa: S608
        " AND (f.is_valid = 1 OR NOT ?) ORDER BY f.lfn",
        (call.argument(given[0]), valid_only),
    ).fetchall()


def _files(call: Call, db: sqlite3.Connection) -> list[dict[str, Any]]:
    rows = _select_files(call, db, "f.rowid, f.*")
    if call.argument("detail", "0").lower() not in {"1", "true"}:
        return [{"logical_file_name": row["lfn"]} for row in rows]
    return [
        {
            "file_id": row["rowid"],
            "logical_file_name": row["lfn"],
            "is_file_valid": row["is_valid"],
            "dataset_id": None,
            "dataset": row["dataset"],
            "block_id": None,
            "block_name": row["block"],
            "file_type_id": 1,
            "file_type": "EDM",
            "check_sum": "NOTSET",
            "event_count": row["events"],
            "file_size": row["size_bytes"],
            "branch_hash_id": None,
            "adler32": row["adler32"],
            "md5": "NOTSET",
            "auto_cross_section": 0,
            "creation_date": row["created_at"],
            "create_by": row["created_by"],
            "last_modification_date": row["created_at"],
            "last_modified_by": row["created_by"],
        }
        for row in rows
    ]


def _file_lumis(call: Call, db: sqlite3.Connection) -> list[dict[str, Any]]:
    rows = _select_files(call, db, "l.*", "JOIN dbs_lumis l ON l.lfn = f.lfn")
    return [
        {
            "run_num": row["run"],
            "lumi_section_num": row["lumi"],
            "event_count": row["events"],
            "logical_file_name": row["lfn"],
        }
        for row in rows
    ]


def _runs(call: Call, db: sqlite3.Connection) -> list[dict[str, Any]]:
    rows = _select_files(call, db, "DISTINCT l.run, f.lfn", "JOIN dbs_lumis l ON l.lfn = f.lfn")
    return [{"run_num": run} for run in sorted({row["run"] for row in rows})]


def _file_summaries(call: Call, db: sqlite3.Connection) -> list[dict[str, Any]]:
    files = _select_files(call, db, "f.*")
    lumis = _select_files(call, db, "DISTINCT l.run, l.lumi, f.lfn", "JOIN dbs_lumis l ON l.lfn = f.lfn")
    dates = sorted(row["created_at"] for row in files)
    return [
        {
            "num_file": len(files),
            "num_event": sum(row["events"] or 0 for row in files) if files else None,
            "file_size": sum(row["size_bytes"] for row in files) if files else None,
            "num_block": len({row["block"] for row in files}),
            "num_lumi": len({(row["run"], row["lumi"]) for row in lumis}),
            "max_ldate": dates[-1] if dates else None,
            "median_cdate": dates[len(dates) // 2] if dates else None,
            "median_ldate": dates[len(dates) // 2] if dates else None,
        }
    ]


def _set_access_type(call: Call, db: sqlite3.Connection) -> Reply:
    """Change the access type; like DBS, ignore a dataset that does not exist."""
    given = {key: values[0] for key, values in call.query.items()} or call.document()
    if given.get("dataset_access_type") not in ACCESS_TYPES:
        message = f"dataset access type {given.get('dataset_access_type')} does not exist"
        raise refusal(call, 400, UNKNOWN_ACCESS_TYPE, message)
    db.execute(
        "UPDATE dbs_datasets SET access_type = ?, modified_at = ? WHERE name = ?",
        (given["dataset_access_type"], int(call.now), given.get("dataset")),
    )
    return json_reply([])


def _set_file_validity(call: Call, db: sqlite3.Connection) -> Reply:
    """Mark one file, or all files of a dataset; like DBS, ignore what does not exist."""
    given = [name for name in ("logical_file_name", "dataset") if name in call.query]
    valid = call.argument("is_file_valid")
    if len(given) != 1 or valid not in {"0", "1"}:
        raise refusal(call, 400, PARAMETERS, "one of logical_file_name, dataset and is_file_valid are needed")
    db.execute(
        f"UPDATE dbs_files SET is_valid = ? WHERE {COLUMN_OF[given[0]]} = ?",  # noqa: S608
        (int(valid), call.argument(given[0])),
    )
    return json_reply([])


_READERS = {
    "datasets": _datasets,
    "blocks": _blocks,
    "files": _files,
    "filelumis": _file_lumis,
    "filesummaries": _file_summaries,
    "runs": _runs,
}
