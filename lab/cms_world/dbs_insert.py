"""Insertion of a whole block into DBS, in one transaction."""

from __future__ import annotations

import sqlite3
from typing import Any

from lab.cms_world.dbs_errors import (
    ACCESS_TYPES,
    BLOCK_EXISTS,
    INSERT,
    PARENT_MISSING,
    UNKNOWN_ACCESS_TYPE,
    VALIDATION,
    refusal,
)
from lab.cms_world.messages import Call

REQUIRED = {
    "block": {"block_name", "block_size", "file_count", "origin_site_name"},
    "dataset": {
        "dataset",
        "processed_ds_name",
        "data_tier_name",
        "dataset_access_type",
        "physics_group_name",
    },
    "primds": {"primary_ds_name", "primary_ds_type"},
    "acquisition_era": {"acquisition_era_name"},
    "processing_era": {"processing_version"},
}
REQUIRED_OF_FILE = {
    "logical_file_name",
    "file_size",
    "event_count",
    "file_type",
    "check_sum",
    "file_lumi_list",
}


def insert_block(call: Call, db: sqlite3.Connection, document: Any) -> None:
    """Insert dataset (if new), block, files, lumi sections and parentage."""
    _check_complete(call, document)
    name = document["block"]["block_name"]
    if db.execute("SELECT 1 FROM dbs_blocks WHERE name = ?", (name,)).fetchone():
        raise refusal(call, 400, BLOCK_EXISTS, f"Block {name} already exists")
    _insert_dataset(call, db, document)
    block, created_at = document["block"], _date(call, document["block"])
    created_by = block.get("create_by", "unknown")
    db.execute(
        "INSERT INTO dbs_blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            name,
            document["dataset"]["dataset"],
            block["origin_site_name"],
            block.get("open_for_writing", 1),
            block["block_size"],
            block["file_count"],
            created_at,
            created_by,
        ),
    )
    is_valid_given = "is_file_valid" in call.body.decode()
    for file in document["files"]:
        # If one file has the mark, all files without it become invalid.
        is_valid = file.get("is_file_valid", 0) if is_valid_given else 1
        _insert_file(call, db, file, (name, document["dataset"]["dataset"], is_valid, created_at, created_by))
    _insert_parents(call, db, document.get("file_parent_list") or [])


def _check_complete(call: Call, document: Any) -> None:
    if not isinstance(document, dict) or not document.get("files") or not document.get("dataset_conf_list"):
        raise refusal(call, 400, VALIDATION, "files and dataset_conf_list are needed")
    for section, keys in REQUIRED.items():
        missing = sorted(keys - set(document.get(section) or {}))
        if missing:
            raise refusal(call, 400, VALIDATION, f"{section}.{missing[0]} is missing")
    for file in document["files"]:
        missing = sorted(REQUIRED_OF_FILE - set(file))
        if missing:
            raise refusal(call, 400, VALIDATION, f"files[].{missing[0]} is missing")
    configured = {item.get("lfn") for item in document.get("file_conf_list") or []}
    if configured != {file["logical_file_name"] for file in document["files"]}:
        raise refusal(call, 400, VALIDATION, "file_conf_list does not name the same files as files")
    if document["dataset"]["dataset_access_type"] not in ACCESS_TYPES:
        raise refusal(call, 400, UNKNOWN_ACCESS_TYPE, "dataset access type does not exist")


def _insert_dataset(call: Call, db: sqlite3.Connection, document: dict[str, Any]) -> None:
    dataset, created_at = document["dataset"], _date(call, document["dataset"])
    db.execute(
        "INSERT OR IGNORE INTO dbs_datasets VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            dataset["dataset"],
            dataset["dataset_access_type"],
            document["primds"]["primary_ds_type"],
            document["acquisition_era"]["acquisition_era_name"],
            document["processing_era"]["processing_version"],
            dataset["physics_group_name"],
            dataset.get("prep_id", ""),
            created_at,
            dataset.get("create_by", "unknown"),
            created_at,
        ),
    )


def _insert_file(
    call: Call, db: sqlite3.Connection, file: dict[str, Any], common: tuple[str, str, int, int, str]
) -> None:
    block, dataset, is_valid, created_at, created_by = common
    lfn, lumis = file["logical_file_name"], file["file_lumi_list"]
    counted = {row.get("event_count") is not None for row in lumis}
    if len(counted) > 1:
        raise refusal(call, 400, VALIDATION, f"{lfn}: event_count on some lumi sections but not on all")
    try:
        db.execute(
            "INSERT INTO dbs_files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                lfn,
                block,
                dataset,
                file["file_size"],
                file["event_count"],
                file.get("adler32") or "NOTSET",
                is_valid,
                created_at,
                created_by,
            ),
        )
    except sqlite3.IntegrityError as error:
        raise refusal(call, 400, INSERT, f"file {lfn} is in DBS already: {error}") from error
    db.executemany(
        "INSERT OR IGNORE INTO dbs_lumis VALUES (?, ?, ?, ?)",
        [(lfn, row["run_num"], row["lumi_section_num"], row.get("event_count")) for row in lumis],
    )


def _insert_parents(call: Call, db: sqlite3.Connection, parents: list[dict[str, str]]) -> None:
    for row in parents:
        parent = row["parent_logical_file_name"]
        if db.execute("SELECT 1 FROM dbs_files WHERE lfn = ?", (parent,)).fetchone() is None:
            raise refusal(call, 400, PARENT_MISSING, f"unable to find parent lfn {parent}")
        db.execute("INSERT OR IGNORE INTO dbs_parents VALUES (?, ?)", (row["logical_file_name"], parent))


def _date(call: Call, section: dict[str, Any]) -> int:
    return int(section.get("creation_date") or call.now)
