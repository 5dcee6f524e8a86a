"""Document with which DBS takes a complete block in one call (bulkblocks). Pure.

Two properties of DBS matter: lumi sections carry an event count only if it is known for every one of the
block, and `is_file_valid` is never sent, because on one file it invalidates all others.
"""

from __future__ import annotations

from typing import Any

from cms.types import BlockFile, BlockRecord
from wms2_project.grammar import Name, check

APPLICATION = "cmsRun"
MODULE_LABEL = "Merged"
# DBS keys a configuration by this hash. WMS2 does not know it; WMAgent sends the same placeholder.
PSET_HASH = "GIBBERISH"


def bulk_block(record: BlockRecord, *, created_by: str) -> dict[str, Any]:
    """Build the document of the block."""
    check(Name.BLOCK, record.block_name)
    check(Name.DATASET, record.dataset)
    configuration = _configuration(record)
    counted = all(_is_counted(file) for file in record.files)
    return {
        "dataset_conf_list": [configuration],
        "file_conf_list": [{**configuration, "lfn": file.lfn} for file in record.files],
        "files": [_file(file, record, created_by, counted=counted) for file in record.files],
        "block": {
            "block_name": record.block_name,
            "open_for_writing": 0,
            "block_size": record.size_bytes,
            "file_count": len(record.files),
            "origin_site_name": record.site,
            "create_by": created_by,
            "creation_date": record.created_at,
        },
        **_dataset_parts(record, created_by),
        "file_parent_list": [
            {"logical_file_name": file.lfn, "parent_logical_file_name": parent}
            for file in record.files
            for parent in file.parents
        ],
        "dataset_parent_list": list(record.parent_datasets),
    }


def _configuration(record: BlockRecord) -> dict[str, str]:
    return {
        "release_version": record.release,
        "pset_hash": PSET_HASH,
        "app_name": APPLICATION,
        "output_module_label": MODULE_LABEL,
        "global_tag": record.global_tag,
    }


def _dataset_parts(record: BlockRecord, created_by: str) -> dict[str, Any]:
    _, primary, processed, tier = record.dataset.split("/")
    stamp = {"create_by": created_by, "creation_date": record.created_at}
    return {
        "processing_era": {
            "processing_version": record.processing_version,
            "create_by": created_by,
            "description": "",
        },
        "primds": {"primary_ds_name": primary, "primary_ds_type": record.primary_type, **stamp},
        "dataset": {
            "dataset": record.dataset,
            "processed_ds_name": processed,
            "data_tier_name": tier,
            "dataset_access_type": record.access_type,
            "physics_group_name": record.physics_group,
            "prep_id": record.prep_id,
            "last_modified_by": created_by,
            "last_modification_date": record.created_at,
            **stamp,
        },
        "acquisition_era": {
            "acquisition_era_name": record.acquisition_era,
            "start_date": record.created_at,
        },
    }


def _file(file: BlockFile, record: BlockRecord, created_by: str, *, counted: bool) -> dict[str, Any]:
    return {
        "logical_file_name": check(Name.LFN, file.lfn),
        "file_size": file.size_bytes,
        "event_count": file.events,
        "file_type": "EDM",
        "check_sum": "NOTSET",
        "adler32": file.adler32 or "NOTSET",
        "md5": "NOTSET",
        "auto_cross_section": 0.0,
        "last_modified_by": created_by,
        "last_modification_date": record.created_at,
        "file_lumi_list": _lumi_list(file, counted=counted),
    }


def _is_counted(file: BlockFile) -> bool:
    """Return whether the lumi of every event is known."""
    return sum((last - first + 1) * events for _, first, last, events in file.lumi_events) == file.events


def _lumi_list(file: BlockFile, *, counted: bool) -> list[dict[str, int]]:
    """Return one entry per lumi; a lumi without remaining events has a count of 0."""
    rows = [
        {"run_num": run, "lumi_section_num": lumi}
        for run, first, last in file.lumis
        for lumi in range(first, last + 1)
    ]
    if counted:
        events = {
            (run, lumi): each
            for run, first, last, each in file.lumi_events
            for lumi in range(first, last + 1)
        }
        for row in rows:
            row["event_count"] = events.get((row["run_num"], row["lumi_section_num"]), 0)
    return rows
