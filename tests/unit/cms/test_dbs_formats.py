"""DBS documents of WMS2 against the formats of DBS: generated ones, and public ones if available."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import requests
from output_blocks import block_file, block_record

from cms.dbs import DbsClient, parse_files
from cms.dbs_block import bulk_block
from cms.types import BlockFile
from lab.cms_world.server import World

BESIDE_THE_CHECKOUT = Path(__file__).parents[3].parent / "shared" / "samples"
SAMPLES = Path(os.environ.get("WMS2_SAMPLES", BESIDE_THE_CHECKOUT)) / "dbs"


def sample(name: str) -> Any:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"no {name} in {SAMPLES}; set WMS2_SAMPLES")
    return json.loads(path.read_text())


def file_row(**changes: Any) -> dict[str, Any]:
    row = {"logical_file_name": "/store/a.root", "file_size": 7, "event_count": 3, "adler32": "1a2b3c4d"}
    return {**row, "block_name": "/A/B-v1/RAW#x", **changes}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1A2B3C4D", "1a2b3c4d"),
        ("b3c4d", "000b3c4d"),
        ("NOTSET", ""),
        ("", ""),
        (None, ""),
        ("123456789", ""),
    ],
)
def test_checksums_are_eight_digits_or_nothing(given: str | None, expected: str) -> None:
    assert parse_files([file_row(adler32=given)], [])[0].adler32 == expected


def test_missing_event_count_is_zero() -> None:
    assert parse_files([file_row(event_count=None)], [])[0].events == 0


def test_file_listed_once_per_run_is_one_file() -> None:
    rows = [file_row(run_num=1), file_row(run_num=2)]

    assert len(parse_files(rows, [])) == 1


def test_lumi_rows_come_singly_or_as_lists_and_of_other_files_too() -> None:
    lumis = [
        {"logical_file_name": "/store/a.root", "run_num": 1, "lumi_section_num": 2},
        {"logical_file_name": "/store/a.root", "run_num": 1, "lumi_section_num": [3, 5]},
        {"logical_file_name": "/store/invalid.root", "run_num": 1, "lumi_section_num": 4},
    ]

    assert parse_files([file_row()], lumis)[0].lumis == ((1, 2, 3), (1, 5, 5))


def test_the_whole_document_has_these_values() -> None:
    file = block_file(
        0, parents=("/store/p.root",), lumi_events=((316877, 1, 2, 15), (316877, 3, 3, 20))
    )  # all events of lumi 7 were filtered away
    record = block_record(files=(file,), parent_datasets=("/SingleMuon/Run2024A-v1/RAW",))
    configuration = {
        "release_version": "CMSSW_14_0_0", "pset_hash": "GIBBERISH", "app_name": "cmsRun",
        "output_module_label": "Merged", "global_tag": "140X_lab_v1",
    }  # fmt: skip
    when, name = 1_800_000_000, "/SingleMuon/Run2024A-Lab-v1/AOD"
    assert bulk_block(record, created_by="wms2") == {
        "dataset_conf_list": [configuration],
        "file_conf_list": [{**configuration, "lfn": file.lfn}],
        "files": [{
            "logical_file_name": file.lfn, "file_size": 1000, "event_count": 50, "file_type": "EDM",
            "check_sum": "NOTSET", "adler32": "00000000", "md5": "NOTSET", "auto_cross_section": 0.0,
            "last_modified_by": "wms2", "last_modification_date": when,
            "file_lumi_list": [
                {"run_num": 316877, "lumi_section_num": lumi, "event_count": events}
                for lumi, events in ((1, 15), (2, 15), (3, 20), (7, 0))
            ],
        }],
        "block": {
            "block_name": record.block_name, "open_for_writing": 0, "block_size": 1000, "file_count": 1,
            "origin_site_name": "T2_CH_CERN", "create_by": "wms2", "creation_date": when,
        },
        "processing_era": {"processing_version": 1, "create_by": "wms2", "description": ""},
        "primds": {
            "primary_ds_name": "SingleMuon", "primary_ds_type": "data", "create_by": "wms2",
            "creation_date": when,
        },
        "dataset": {
            "dataset": name, "processed_ds_name": "Run2024A-Lab-v1", "data_tier_name": "AOD",
            "dataset_access_type": "PRODUCTION", "physics_group_name": "NoGroup", "prep_id": "LAB-0001",
            "create_by": "wms2", "creation_date": when, "last_modified_by": "wms2",
            "last_modification_date": when,
        },
        "acquisition_era": {"acquisition_era_name": "Run2024A", "start_date": when},
        "file_parent_list": [
            {"logical_file_name": file.lfn, "parent_logical_file_name": "/store/p.root"}
        ],
        "dataset_parent_list": ["/SingleMuon/Run2024A-v1/RAW"],
    }  # fmt: skip


def test_events_are_counted_in_every_lumi_of_a_block_or_in_none() -> None:
    counted = block_file(0, lumi_events=((316877, 1, 2, 25),))
    empty = block_file(1, events=0)

    def files(*given: BlockFile) -> list[bool]:
        document = bulk_block(block_record(files=given), created_by="wms2")
        return ["event_count" in row for file in document["files"] for row in file["file_lumi_list"]]

    assert files(counted, empty) == [True] * 8
    assert files(counted, block_file(1)) == [False] * 8


def test_validity_of_files_is_not_mentioned() -> None:
    assert "is_file_valid" not in json.dumps(bulk_block(block_record(), created_by="wms2"))


def test_size_and_count_of_the_block_are_those_of_its_files() -> None:
    block = bulk_block(block_record(), created_by="wms2")["block"]

    assert (block["block_size"], block["file_count"]) == (2001, 2)


@pytest.mark.parametrize("name", ["bulkblocks.json", "genericttbar_block.json"])
def test_our_block_has_every_section_of_a_public_one(name: str) -> None:
    public = sample(name)
    ours = bulk_block(block_record(files=(block_file(0, parents=("/store/p.root",)),)), created_by="wms2")

    # DBS makes the parentage of blocks from that of their files; a block's dump spells datasets' in two ways.
    assert set(public) - set(ours) <= {"block_parent_list", "ds_parent_list"}


def test_our_block_has_every_field_of_a_public_one() -> None:
    public = sample("bulkblocks.json")
    file = block_file(lumi_events=((316877, 1, 2, 25),))
    ours = bulk_block(block_record(files=(file,)), created_by="wms2")

    for section in ("block", "dataset", "primds", "acquisition_era", "processing_era"):
        assert set(public[section]) <= set(ours[section]), section
    for section in ("files", "file_conf_list", "dataset_conf_list"):
        assert set(public[section][0]) <= set(ours[section][0]), section
    lumis = [document["files"][0]["file_lumi_list"][0] for document in (public, ours)]
    assert set(lumis[0]) == set(lumis[1])


def test_public_block_can_be_registered_and_read_back(world: World, dbs: DbsClient) -> None:
    document = sample("bulkblocks.json")
    document["dataset_parent_list"] = []

    answer = requests.post(f"{world.url}/dbs/DBSWriter/bulkblocks", json=document, timeout=5)

    assert answer.json() == []
    found = dbs.block_files(document["block"]["block_name"])
    assert sum(file.size_bytes for file in found) == sum(file["file_size"] for file in document["files"])
    assert found[0].lumis == ((98, 26422, 26422), (98, 27414, 27414), (98, 29838, 29838))


def test_public_file_records_are_read() -> None:
    rows = sample("files_response.json")

    files = parse_files(rows, [])

    assert {file.lfn for file in files} == {row["logical_file_name"] for row in rows}
    assert {file.adler32 for file in files} == {""}


def test_lab_answers_with_the_columns_of_a_public_file_record(world: World, dbs: DbsClient) -> None:
    columns = set(sample("files_response.json")[0]) - {"run_num"}
    dbs.register_block(block_record())

    answer = requests.get(
        f"{world.url}/dbs/DBSReader/files",
        params={"block_name": block_record().block_name, "detail": 1},
        timeout=5,
    )

    assert set(answer.json()[0]) == columns
